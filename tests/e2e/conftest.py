from tests.e2e.commands import shop

__all__ = ["shop"]

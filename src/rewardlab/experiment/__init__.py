"""A spec run over several seeds, and everything that is written down of it."""

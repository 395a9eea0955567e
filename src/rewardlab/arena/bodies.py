"""What a request may bring: no more than its path takes (413), and not so slowly that it keeps others out (408)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi.exceptions import HTTPException

from rewardlab.arena.limits import App, Receive, Scope, Send

MOST = 1 << 20  # bytes, where nothing else is said
PAUSE = 10.0  # seconds without a byte
SLOWEST = 8 << 10  # bytes per second, once the pause has passed


class Bodies:
    """A layer that counts bodies as they come, before anybody gathers them."""

    def __init__(self, app: App, bundle: int) -> None:
        self.app, self.bundle = app, bundle

    def most(self, path: str) -> int:
        """How many bytes a path takes: a bundle and its form, or what a form or question needs."""
        return MOST + (self.bundle if path == "/submit" or "/submit/bytes/" in path else 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, counting."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        most, size, waited, whole = self.most(scope["path"]), 0, 0.0, False

        async def counted() -> Any:
            nonlocal size, waited, whole
            if whole:
                return await receive()
            start = time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), PAUSE)
            except TimeoutError:
                raise too_slow() from None
            waited += time.monotonic() - start  # for the caller alone, not for our own disk
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > most:
                raise too_large(most)
            if waited > PAUSE and size < SLOWEST * waited:
                raise too_slow()
            return message

        await self.app(scope, counted, send)


def too_large(most: int) -> HTTPException:
    """Said before the rest of it is read."""
    told = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return HTTPException(413, f"The request is larger than {told}.")


def too_slow() -> HTTPException:
    """Its place is for others; the connection ends."""
    return HTTPException(408, "The request came too slowly.", headers={"Connection": "close"})

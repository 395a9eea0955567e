"""How connections are kept from holding the server's hands: heads of requests are short, come soon, and are few."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0  # from a connection's first moment, or a request's first byte, to the end of its head
MOST_HEAD, MOST_FIELDS = 64 << 10, 100
MOST_MESSAGE = 256 << 20  # a whole request as it comes, whatever its chunks are
SPARE_FILES = 200  # for the database, the shelf and the workers' pipes
FULL = b'{"detail":"Too many connections: wait a moment."}'
REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\n"


def most_connections() -> int:
    """As many as this process may have files, all of which it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return max(50, soft - SPARE_FILES)


class Wire(HttpToolsProtocol):
    """Uvicorn's protocol with bounds on what a peer may leave unfinished."""

    most = 10_000

    def connection_made(self, transport: Any) -> None:
        """One more, if there is room."""
        super().connection_made(transport)
        self._clock: asyncio.TimerHandle | None = None
        self._in_head, self._bytes, self._fields = True, 0, 0
        if len(self.connections) > self.most:
            transport.write(REFUSAL + b"content-length: " + str(len(FULL)).encode() + b"\r\n\r\n" + FULL)
            transport.close()
        else:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to one message."""
        self._bytes += len(data)
        super().data_received(data)
        if self._bytes > (MOST_HEAD if self._in_head else MOST_MESSAGE) and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long." if self._in_head else "Too much.")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head, self._bytes, self._fields = True, 0, 0
        self._start_clock()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Fields of heads, and of what may follow a body in chunks."""
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise ValueError("too many fields")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._in_head = False
        self._stop_clock()
        super().on_headers_complete()

    def _start_clock(self) -> None:
        self._stop_clock()
        self._clock = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

"""Nobody gets more than a share: token buckets per caller, and a bound on what is in work at once. Past it: 429."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

MOST_CALLERS = 50_000
FREE = ("/health", "/api/v1/health")
SHARED = 4  # times as much as one caller may all callers of an address together
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Rates:
    """Requests per second of one caller, and how many at once; what is in work for all."""

    reads: float = 50.0
    reads_at_once: float = 200.0
    writes: float = 5.0
    writes_at_once: float = 50.0
    logins: float = 0.2
    logins_at_once: float = 10.0
    in_work: int = 256
    in_work_each: int = 64  # of one address


@dataclass
class Bucket:
    """Fills at a rate up to its size; a request takes one out."""

    rate: float
    size: float
    filled: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, caller: str, now: float) -> float:
        """0, or the seconds to wait for the next."""
        level, then = self.filled.pop(caller, (self.size, now))
        level = min(self.size, level + (now - then) * self.rate)
        if level < 1:
            self.filled[caller] = (level, now)
            return (1 - level) / self.rate
        self.filled[caller] = (level - 1, now)
        if len(self.filled) > MOST_CALLERS:
            self.filled.popitem(last=False)
        return 0.0


class Limiter:
    """The outermost layer of the app."""

    def __init__(self, app: App, rates: Rates) -> None:
        self.app, self.rates = app, rates
        self.buckets = {
            "read": Bucket(rates.reads, rates.reads_at_once),
            "write": Bucket(rates.writes, rates.writes_at_once),
            "login": Bucket(rates.logins, rates.logins_at_once),
        }
        self.shared = {kind: Bucket(SHARED * b.rate, SHARED * b.size) for kind, b in self.buckets.items()}
        self.in_work = 0
        self.of_address: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer 429 with the time to wait."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = _caller(scope)[0]
        full = self.in_work >= self.rates.in_work or self.of_address[address] >= self.rates.in_work_each
        if wait := 1.0 if full else self._wait(scope):
            await _refuse(send, wait)
            return
        self.in_work += 1
        self.of_address[address] += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.in_work -= 1
            self.of_address[address] -= 1
            if not self.of_address[address]:
                del self.of_address[address]

    def _wait(self, scope: Scope) -> float:
        path, method = scope["path"], scope["method"]
        if path.startswith("/static/") or path in FREE:
            return 0.0
        kind = "read" if method in ("GET", "HEAD", "OPTIONS") else "write"
        if kind == "write" and path in ("/login", "/device"):
            kind = "login"
        now, (address, token) = time.monotonic(), _caller(scope)
        if kind == "login" or not token:  # guesses of passwords and codes always count by address
            return self.buckets[kind].take(address, now)
        wait = self.shared[kind].take(address, now)  # invented tokens get nobody beyond what an address may
        return wait or self.buckets[kind].take(f"{address} {token}", now)


def _caller(scope: Scope) -> tuple[str, str]:
    """The address that asks, and the end of its token, if it has one."""
    client = scope.get("client")
    found = [value for name, value in scope["headers"] if name in (b"x-auth-token", b"authorization")]
    return client[0] if client else "", found[0].decode("latin-1")[-16:] if found else ""


async def _refuse(send: Send, wait: float) -> None:
    seconds = str(max(1, round(wait + 0.5))).encode()
    body = b'{"detail":"Too many requests: wait a moment."}'
    headers = [(b"content-type", b"application/json"), (b"retry-after", seconds)]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})

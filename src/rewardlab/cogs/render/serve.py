"""The server of the page: this machine alone, one secret per run, a fixed list of files."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rewardlab.cogs.errors import CogsError

LOOPBACK = "127.0.0.1"
MOST_BODY = 1 << 14
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FILES = (
    *("index.html", "style.css", "icon.svg", "main.js", "episode.js", "link.js"),
    *("map.js", "sprites.js", "panel.js", "chart.js", "theme.js"),
)
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
HEADERS = {
    "Content-Security-Policy": f"{POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Frames = Callable[[int], Mapping[str, Any]]
Command = Callable[[Mapping[str, Any]], None]


class PageServer:
    """Answers for the page's files, the `opening` JSON, `frames` from a step on, and takes a `command`."""

    def __init__(self, opening: Mapping[str, Any], frames: Frames, command: Command, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(18)
        handler = type("Handler", (_Handler,), {"page": self})
        self.opening, self.frames, self.command = opening, frames, command
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        except OSError as error:
            raise CogsError(f"Cannot serve the page on {LOOPBACK}, port {port}: {error.strerror or error}.") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port, chosen by the system unless one was asked for."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The page, with its secret."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    page: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "RewardLab", ""
    timeout = 60

    def do_GET(self) -> None:
        name, query = self._name()
        if name is None:
            return
        if name == "episode":
            self._json(self.page.opening)
        elif name == "frames":
            start = parse_qs(query).get("from", [""])[0]
            if start.isascii() and start.isdigit() and len(start) < 10:
                self._json(self.page.frames(int(start)))
            else:
                self._refuse(HTTPStatus.BAD_REQUEST)
        elif (name or "index.html") in FILES:
            self._file(name or "index.html")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        name, _ = self._name()
        if name is None:
            return
        length = self.headers.get("Content-Length", "")
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        if name != "control":
            self._refuse(HTTPStatus.NOT_FOUND)
        elif self.headers.get("Origin") != f"http://{self.headers['Host']}" or kind != "application/json":
            self._refuse(HTTPStatus.FORBIDDEN)  # another site's page has another origin
        elif not (length.isascii() and length.isdigit() and int(length) <= MOST_BODY):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._command(self.rfile.read(int(length)))

    def _command(self, body: bytes) -> None:
        try:
            message = json.loads(body)
            if not isinstance(message, dict):
                raise ValueError("not an object")
            self.page.command(message)
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        self._answer(b"", "text/plain", HTTPStatus.NO_CONTENT)

    def _name(self) -> tuple[str | None, str]:
        """What is asked for behind the secret; None (and an answer) where host or secret are not ours."""
        hosts = {f"{host}:{self.page.port}" for host in (LOOPBACK, "localhost")}
        if self.headers.get("Host") not in hosts:  # a foreign name that resolves to this machine
            self._refuse(HTTPStatus.FORBIDDEN)
            return None, ""
        parts = urlsplit(self.path)
        token, slash, name = parts.path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.page.token.encode()):
            self._refuse(HTTPStatus.NOT_FOUND)
            return None, ""
        return name, parts.query

    def _file(self, name: str) -> None:
        data = (files("rewardlab") / "web" / "cogs" / name).read_bytes()
        self._answer(data, f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8")

    def _json(self, message: Mapping[str, Any]) -> None:
        self._answer(json.dumps(message, separators=(",", ":")).encode(), "application/json")

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True  # what is left of the request stays unread
        self._answer(f"{status.phrase}\n".encode(), "text/plain; charset=utf-8", status)

    def _answer(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        try:
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            if status is not HTTPStatus.NO_CONTENT:
                self.send_header("Content-Length", str(len(data)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the page is gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for the person."""

"""Connections that mean harm, byte by byte on a real port: each ends soon, and everybody else is served."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from rewardlab.arena import bodies, wire
from rewardlab.arena.limits import Rates
from rewardlab.arena.place import Place
from rewardlab.arena.server import Settings
from rewardlab.arena.wire import Wire
from rewardlab.web.app import whole_app

Open = Callable[[], socket.socket]
RATES = Rates(reads=1e9, reads_at_once=1e9, writes=1e9, writes_at_once=1e9, in_work_each=4)
SEASONS = b"GET /api/v1/tournament/seasons HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that is served as `rewardlab arena serve` does it."""
    place = Place(tmp_path_factory.mktemp("wire") / "arena")
    place.set_up()
    app = whole_app(place, place.root.parent, Settings(RATES))
    config = uvicorn.Config(app, "127.0.0.1", 0, log_config=None, lifespan="off", http=Wire, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()
    place.database.close()


@pytest.fixture
def opened(port: int) -> Iterator[Open]:
    """Opens connections to it."""
    with contextlib.ExitStack() as connections:
        yield lambda: connections.enter_context(socket.create_connection(("127.0.0.1", port), 20))


def answer(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection, or an answer's whole head."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            said += part
            if b"\r\n\r\n" in said:
                break
    return said


def status(connection: socket.socket, sent: bytes) -> int:
    """What the server answers; 0 if it closes without a word."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(sent)
    said = answer(connection)
    return int(said[9:12]) if said else 0


def test_a_head_that_does_not_end_is_not_waited_for(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.4)
    mute, slow = opened(), opened()
    start = time.monotonic()
    slow.sendall(SEASONS[:20])
    while time.monotonic() - start < 5:  # a byte now and then does not help
        time.sleep(0.1)
        try:
            slow.sendall(b"x")
        except ConnectionError:
            break
    assert time.monotonic() - start < 3
    assert answer(mute) == b""
    assert status(opened(), SEASONS + b"\r\n") == 200


@pytest.mark.parametrize(
    "head",
    [
        SEASONS + b"X-Long: " + b"x" * (300 << 10),
        SEASONS + b"".join(b"X-%d: 1\r\n" % i for i in range(200)) + b"\r\n",
        b"GET /" + b"x" * (300 << 10),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody tries TLS
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"POST /api/v1/auth/device HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
        b"POST /api/v1/auth/device HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["long field", "many fields", "long address", "TLS", "SSH", "two lengths", "negative length"],
)
def test_heads_that_are_none_are_refused(opened: Open, head: bytes) -> None:
    assert status(opened(), head) in (0, 400)
    assert status(opened(), SEASONS + b"\r\n") == 200


@pytest.mark.parametrize(
    "line",
    [
        *(b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"BREW / HTTP/1.1"),
        *(b"GET http://b/x HTTP/1.1", b"GET /%ff%fe HTTP/1.1", b"GET /runs/%00 HTTP/1.1", b"GET //b HTTP/1.0"),
        *(b"GET /x?%ff=%ff HTTP/1.1", b"GET /seasons/..%2f..%2f HTTP/1.1", b"HEAD / HTTP/1.1"),
    ],
)
def test_odd_addresses_and_methods_are_no_500(opened: Open, line: bytes) -> None:
    assert status(opened(), line + b"\r\nHost: a\r\nX-Auth-Token: \xff\xfe\r\nCookie: \xff=\xff\r\n\r\n") < 500
    assert status(opened(), SEASONS + b"\r\n") == 200


def test_a_body_that_does_not_come_gives_its_place_up(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PAUSE", 0.4)
    head = b"POST /api/v1/auth/device/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    waiting = [opened() for _ in range(4)]
    for one in waiting:
        one.sendall(head + b"Content-Length: 1000\r\n\r\n{")
    time.sleep(0.1)
    assert status(opened(), SEASONS + b"\r\n") == 429  # four of this address are in work, and that is its share
    for one in waiting:
        said = answer(one)
        assert said.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in said.lower()
    assert status(opened(), SEASONS + b"\r\n") == 200


def test_a_body_that_drips_is_not_waited_for_either(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PAUSE", 0.4)
    one = opened()
    head = b"POST /api/v1/auth/device/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    one.sendall(head + b"Content-Length: 1000\r\n\r\n{")
    start = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() - start < 5 and not _ready(one):
            one.sendall(b" ")
            time.sleep(0.05)
    assert time.monotonic() - start < 3
    assert answer(one).startswith(b"HTTP/1.1 408")


def _ready(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(20)


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("path", [b"/api/v1/auth/device/token", b"/login", b"/device", b"/tournament/seasons/x"])
def test_a_body_beyond_what_a_question_needs_is_413(opened: Open, path: bytes, said: bool) -> None:
    """Before it is gathered: announced or not."""
    body = b"a=" + b"x" * (2 << 20)
    length = b"Content-Length: %d\r\n" % len(body) if said else b"Transfer-Encoding: chunked\r\n"
    body = body if said else b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    kind = b"application/json" if b"token" in path else b"application/x-www-form-urlencoded"
    head = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nContent-Type: " + kind + b"\r\n"
    assert status(opened(), head + length + b"\r\n" + body) in (405, 413)
    assert status(opened(), SEASONS + b"\r\n") == 200


def test_nobodys_bundle_is_not_read(opened: Open) -> None:
    """The form's answer comes before its bytes: who sends them is asked first."""
    head = b"POST /submit HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    assert status(opened(), head + b"Content-Length: 30000000\r\n\r\n--b\r\n") == 401


def test_more_connections_than_there_is_room_for_are_told_so(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wire, "most", 3)
    held = [opened() for _ in range(3)]
    assert status(held[0], SEASONS + b"\r\n") == 200
    assert status(opened(), SEASONS + b"\r\n") == 429
    held[1].close()
    deadline = time.monotonic() + 10
    while (found := status(opened(), SEASONS + b"\r\n")) != 200:
        assert found == 429
        assert time.monotonic() < deadline

"""The server of the page: what it answers, and whom."""

from __future__ import annotations

import http.client
import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rewardlab.cogs.errors import CogsError
from rewardlab.cogs.render.gui import GuiViewer
from rewardlab.cogs.render.scene import Summary, play
from rewardlab.cogs.render.serve import FILES, MOST_BODY, PageServer


class Playing:
    """An episode in a thread, as the command line would play it."""

    def __init__(self, session: Any, **options: Any) -> None:
        self.session, self.stream = session, io.StringIO()
        self.viewer = GuiViewer(open_browser=False, linger=False, stream=self.stream, **options)
        self.summary: Summary | None = None
        self.thread = threading.Thread(target=self._play)
        ready = threading.Event()
        begin = self.viewer.begin

        def told(setting: Any) -> None:
            begin(setting)
            ready.set()

        self.viewer.begin = told  # type: ignore[method-assign]
        self.thread.start()
        assert ready.wait(30)
        assert self.viewer.server is not None
        self.url, self.port, self.token = self.viewer.url, self.viewer.server.port, self.viewer.server.token

    def _play(self) -> None:
        self.summary = play(self.session, self.viewer)

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {"Host": f"127.0.0.1:{self.port}"} | {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, data, given)
        answer = connection.getresponse()
        found = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return found

    def order(self, body: Any, **headers: str) -> int:
        usual = {"Origin": f"http://127.0.0.1:{self.port}", "Content_Type": "application/json"} | headers
        return self.ask(f"/{self.token}/control", body, **usual)[0]

    def frames(self, start: int = 0) -> Any:
        return json.loads(self.ask(f"/{self.token}/frames?from={start}")[1])


@pytest.fixture
def playing(toy: Callable[..., Any]) -> Iterator[Playing]:
    game = Playing(toy(20))
    yield game
    assert game.viewer.broadcast is not None
    game.viewer.broadcast.command({"quit": True})
    game.thread.join(30)
    assert not game.thread.is_alive()


def test_the_episode_is_played_as_far_as_the_page_wants(playing: Playing) -> None:
    opening = json.loads(playing.ask(f"/{playing.token}/episode")[1])
    assert (opening["live"], opening["autostart"], opening["header"]["mission"]) == (True, False, "toy.basic")
    assert len(playing.frames()["frames"]) == 1
    assert playing.order({"want": 3}) == 204
    while len(playing.frames()["frames"]) < 4:
        pass
    assert playing.session.scene.step == 3
    assert playing.order({"want": 4, "steer": {"1": 2}}) == 204
    assert len(playing.frames(4)["frames"]) == 1  # the question waits for the answer
    assert playing.session.orders == [{}, {}, {}, {1: 2}]
    assert playing.order({"want": 10**9}) == 204
    playing.thread.join(30)
    assert playing.summary is not None
    assert (playing.summary.steps, playing.summary.complete) == (20, True)
    with pytest.raises(ConnectionRefusedError):
        playing.ask(f"/{playing.token}/episode")


def test_quit_ends_the_episode(playing: Playing) -> None:
    assert playing.order({"quit": True}) == 204
    playing.thread.join(30)
    assert playing.summary is not None
    assert not playing.summary.complete


def test_every_file_of_the_page_is_there_and_nothing_else(playing: Playing) -> None:
    for name in ("", *FILES):
        status, data, headers = playing.ask(f"/{playing.token}/{name}")
        assert (status, len(data) > 100) == (200, True)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
    wrong = ("../serve.py", "..%2f..%2f__init__.py", "/etc/passwd", "%2e%2e/", "index.html/", "frames/../main.js", ".")
    for name in wrong:
        assert playing.ask(f"/{playing.token}/{name}")[0] == 404


def test_strangers_get_nothing(playing: Playing) -> None:
    for path in ("/", "/episode", "/x/episode", "/%00/", f"/{playing.token}", f"/{playing.token[:-1]}/episode"):
        assert playing.ask(path)[0] == 404
    page = f"/{playing.token}/episode"
    assert playing.ask(page, Host="evil.example")[0] == 403  # a name that was made to resolve to this machine
    assert playing.ask(page, Host=f"evil.example:{playing.port}")[0] == 403
    assert playing.ask(page, Host=f"localhost:{playing.port}")[0] == 200
    assert playing.order({"want": 5}, Origin="https://evil.example") == 403
    assert playing.order({"want": 5}, Origin="null") == 403
    assert playing.order({"want": 5}, Content_Type="text/plain") == 403  # what a form of another site could send
    assert playing.session.scene.step == 0


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"x", b"[]", b"{" * 9000),
        *({"want": "all"}, {"steer": {"9": 1}}, {"steer": {"x": 1}}, {"steer": {"0": 99}}, {"quit": 1}),
    ],
)
def test_nonsense_is_refused(playing: Playing, body: Any) -> None:
    assert playing.order(body) == 400
    assert playing.session.scene.step == 0


def test_sizes_and_numbers_are_bounded(playing: Playing) -> None:
    assert playing.order(b" " * (MOST_BODY + 1)) == 413
    for start in ("-1", "x", "", "9" * 50, "1.5"):
        assert playing.ask(f"/{playing.token}/frames?from={start}")[0] == 400
    assert playing.ask(f"/{playing.token}/other", b"{}")[0] == 404


def test_only_this_machine_is_served_and_a_taken_port_is_told(playing: Playing) -> None:
    server = playing.viewer.server
    assert server is not None
    assert server._server.server_address[0] == "127.0.0.1"
    with pytest.raises(CogsError, match=f"port {playing.port}"):
        PageServer({}, server.frames, server.command, playing.port)
    assert f"http://127.0.0.1:{playing.port}/{playing.token}/" in playing.stream.getvalue()

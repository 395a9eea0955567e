"""The pages in a real browser: from the front page to a replay, from logging in to a policy in a season."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.arena.conftest import FREE, bundle
from tests.browser import Browser
from tests.web.conftest import LONG, Served

from rewardlab.arena.place import Place
from rewardlab.web.app import whole_app
from rewardlab.web.pages import grid
from rewardlab.web.site import chart, figure

SIZES = {"desk": ((1280, 900), "light"), "phone": ((390, 844), "dark")}
NAMELESS = """[...document.querySelectorAll('input:not([type=hidden]), select, button, a, img, svg[role=img], iframe')]
  .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label') || e.alt || e.title))
  .map((e) => e.outerHTML)"""
UNSEEN = """[...document.querySelectorAll('.scroll tbody tr td b')]
  .filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.closest('tr').innerText)"""
CONTRAST = """(() => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parts = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * (top[3] ?? 1) + under[i] * (1 - (top[3] ?? 1)));
  const ground = (e) => {
    const stack = [];
    for (; e; e = e.parentElement) stack.push(parts(getComputedStyle(e).backgroundColor));
    return stack.reverse().reduce((under, c) => over(c, under), [255, 255, 255]);
  };
  const low = [];
  for (const e of document.querySelectorAll('main *, header *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.offsetParent || e.closest('svg, iframe')) continue;
    const [a, b] = [light(over(parts(getComputedStyle(e).color), ground(e))), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 30)}`);
  }
  return low;
})()"""


def all_pages(place: Place) -> list[str]:
    match = place.seasons.matches(most=1)[0]
    policy = match["players"][0]["policy"]["id"]
    fixed = ["/", "/seasons", "/seasons/quick", "/benchmarks", "/speedruns", "/runs", "/login", "/nowhere"]
    return [*fixed, f"/policies/{policy}", f"/matches/{match['id']}"]


@pytest.mark.parametrize("size", SIZES)
def test_every_page_fits_is_labelled_and_can_be_read(playwright: Any, site: Served, size: str) -> None:
    browser = Browser(playwright, *SIZES[size])
    try:
        for path in all_pages(site.place):
            browser.open(site.url + path)
            assert browser.run("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
            assert browser.run(UNSEEN) == [], f"{path}: its number is out of sight"
            assert browser.run(NAMELESS) == [], path
            assert browser.run(CONTRAST) == [], path
            assert browser.run("document.documentElement.lang") == "en"
            assert browser.run("document.querySelectorAll('h1').length") == 1
        assert [error for error in browser.errors if "404" not in error] == []
    finally:
        browser.close()


def test_from_the_leaderboard_to_the_replay_by_keyboard(browser: Any, site: Served) -> None:
    browser.open(site.url + "/seasons/quick")
    rows = browser.run("[...document.querySelectorAll('tbody th a')].slice(0, 2).map((e) => e.textContent).sort()")
    assert rows == ["crew:v1", f"{LONG}:v1"]
    browser.key("Tab")
    assert browser.run("document.activeElement.textContent") == "Skip to the content"
    browser.page.get_by_role("region", name="Matches of the season").get_by_role("link").first.focus()
    browser.key("Enter")
    browser.until("location.pathname.startsWith('/matches/')")
    viewer = browser.page.frame_locator("iframe.replay")
    viewer.locator("#map").wait_for()
    assert viewer.locator("#mission").inner_text() == "cogsguard_arena.basic"
    browser.open(browser.page.url + "/replay/")
    browser.until("app.newest === 10 && app.over")  # a match of ten steps
    browser.key("End")
    browser.until("app.position === 10")
    assert browser.errors == []


def test_a_person_logs_in_submits_and_leaves(browser: Any, site: Served, tmp_path: Path) -> None:
    place = site.place
    secret = place.accounts.make_token(place.accounts.add_user("carol"))
    file = tmp_path / "mine.zip"
    file.write_bytes(bundle({"class_path": "random"}))
    browser.open(site.url + "/submit")  # nobody: the login page, and back here after it
    browser.page.get_by_label("Token").fill("rl_wrong")
    browser.page.get_by_role("button", name="Log in").first.click()
    assert "unknown, revoked or expired" in browser.page.get_by_role("alert").inner_text()
    browser.page.get_by_label("Token").fill(secret)
    browser.page.get_by_role("button", name="Log in").first.click()
    browser.until("location.pathname === '/submit'")
    browser.page.get_by_label("Name").fill("mine")
    browser.page.get_by_label("Bundle").set_input_files(str(file))
    browser.page.get_by_label("Season").select_option("quick")
    browser.page.get_by_role("button", name="Upload").click()
    browser.until("location.pathname.startsWith('/policies/')")
    assert browser.run("document.querySelector('h1').innerText").startswith("mine:v1")
    assert browser.run("document.querySelector('.state').textContent") == "quarantine"
    browser.open(site.url + "/me")
    assert "mine" in browser.run("document.querySelector('main').innerText")
    browser.page.get_by_role("button", name="Log out").click()
    browser.open(site.url + "/me")
    assert browser.run("location.pathname") == "/login"
    assert (
        len([t for t in place.accounts.tokens(place.accounts.user("carol")) if t.revoked]) == 1
    )  # the browser's alone
    assert [error for error in browser.errors if "401" not in error] == []


def test_a_device_is_confirmed_by_its_person(browser: Any, site: Served) -> None:
    place = site.place
    place.accounts.add_user("dave", password="a long password")
    secret, code, _ = place.accounts.start_device()
    browser.open(f"{site.url}/device?code={code}")
    browser.page.get_by_label("Name").fill("dave")
    browser.page.get_by_label("Password").fill("a long password")
    browser.page.get_by_role("button", name="Log in").nth(1).click()
    browser.until("location.pathname === '/device'")
    assert browser.page.get_by_label("Code").input_value() == code
    browser.page.get_by_role("button", name="It is mine").click()
    assert "logged in as dave" in browser.until("document.querySelector('main p').innerText")
    user = place.accounts.finish_device(secret)
    assert user is not None
    assert user.name == "dave"


def http(place: Place, tmp_path: Path) -> TestClient:
    return TestClient(whole_app(place, tmp_path, FREE), follow_redirects=False)


def test_forms_of_other_sites_are_refused(played: Place, tmp_path: Path) -> None:
    client = http(played, tmp_path)
    for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert client.post("/login", data={"token": "x"}, headers=headers).status_code == 403
        assert client.post("/logout", headers=headers).status_code == 403


def test_a_login_reaches_no_further_than_its_token(played: Place, tmp_path: Path) -> None:
    client, own = http(played, tmp_path), {"Origin": "http://testserver"}
    reader = played.accounts.make_token(played.accounts.add_user("reader"), scope="read", days=1)
    assert client.post("/login", data={"token": reader}, headers=own).status_code == 303
    (_, session) = played.accounts.tokens(played.accounts.user("reader"))
    assert session.scope == "read"
    assert session.expires is not None
    assert session.expires <= time.time() + 86400  # not the thirty days of a browser's login
    _, code, _ = played.accounts.start_device()
    files = {"bundle": ("a.zip", bundle({"class_path": "noop"}))}
    assert client.get("/me").status_code == 200
    assert client.post("/submit", data={"name": "a"}, files=files, headers=own).status_code == 403
    assert client.post("/device", data={"code": code}, headers=own).status_code == 403
    assert client.post(f"/me/tokens/{session.id}/revoke", headers=own).status_code == 403
    assert client.post(f"/policies/{'0' * 36}/submit", data={"season": "quick"}, headers=own).status_code == 403
    played.accounts.revoke(session.id)
    assert client.get("/me").headers["location"] == "/login"


def test_forms_that_lack_something_are_refused_in_a_sentence(played: Place, tmp_path: Path) -> None:
    client, own = http(played, tmp_path), {"Origin": "http://testserver"}
    secret = played.accounts.make_token(played.accounts.add_user("eve"))
    client.post("/login", data={"token": secret}, headers=own)
    for data, files in (
        ({"name": "a", "season": "quick"}, None),
        ({"name": "a", "bundle": "text"}, None),
        ({"name": ""}, {"bundle": ("a.zip", b"")}),
        ({"name": "a/b"}, {"bundle": ("a.zip", b"PK")}),
        ({"name": "a", "season": "nowhere"}, {"bundle": ("../../x.zip", b"PK")}),
        ({"name": "x" * 5000}, {"bundle": ("a.zip", b"PK")}),
    ):
        answer = client.post("/submit", data=data, files=files, headers=own | {"Accept": "text/html"})
        assert answer.status_code in (400, 404)
        assert 'role="alert"' in answer.text


def test_back_leads_to_our_own_pages_only(played: Place, tmp_path: Path) -> None:
    client, secret = http(played, tmp_path), played.accounts.make_token(played.accounts.user("alice"))
    for back, to in (
        ("//evil.example", "/me"),
        ("https://evil.example", "/me"),
        ("/\\evil", "/me"),
        ("/submit", "/submit"),
    ):
        answer = client.post("/login", data={"token": secret, "back": back}, headers={"Origin": "http://testserver"})
        assert (answer.status_code, answer.headers["location"]) == (303, to)
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert secret not in cookie  # a token of its own


def test_what_people_write_is_text_on_every_page(played: Place, tmp_path: Path) -> None:
    client, evil = http(played, tmp_path), "<script>alert(1)</script>"
    for path in (f"/seasons/{evil}", f"/policies/{evil}", f"/matches/{evil}", f"/runs/{evil}", f"/login?back={evil}"):
        answer = client.get(path, headers={"Accept": "text/html"})
        assert answer.status_code in (200, 404)
        assert evil not in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["%2e%2e", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "%00"])
def test_names_lead_nowhere_but_to_runs_and_files_of_the_viewer(played: Place, tmp_path: Path, name: str) -> None:
    client, match = http(played, tmp_path), played.seasons.matches(most=1)[0]["id"]
    for path in (
        f"/runs/{name}",
        f"/runs/{name}/graph/x.png",
        f"/speedruns/{name}",
        f"/matches/{match}/replay/{name}",
        f"/static/{name}",
    ):
        assert client.get(path).status_code in (307, 404), path


def test_without_an_arena_the_boards_are_served(tmp_path: Path) -> None:
    client = http(Place(tmp_path / "none"), tmp_path)
    assert client.get("/benchmarks").status_code == 200
    assert "Seasons" not in client.get("/").text
    assert client.get("/seasons").status_code == 404
    assert not (tmp_path / "none").exists()  # looking makes nothing


def test_a_run_leads_to_its_curves(played: Place, tmp_path: Path) -> None:
    client = http(played, tmp_path)
    found = re.findall(r'href="/runs/([^"]+)"', client.get("/benchmarks").text)
    assert found
    text = client.get(f"/runs/{found[0]}").text
    assert text.count("<polyline") == 4  # a line per session
    assert "rewardlab verify benchmarks/runs/" in text
    picture = re.findall(r'/graph/([^"]+)', text)[0]
    assert client.get(f"/runs/{found[0]}/graph/{picture}").headers["content-type"] == "image/png"


def test_the_grid_holds_means_by_share() -> None:
    from rewardlab.arena.rating import Side

    rows = grid([[Side("a", 1, 2.0), Side("b", 3, 4.0)], [Side("a", 3, 6.0), Side("b", 1, 8.0)]], ["a", "b"])
    assert rows[0]["cells"][1]["mean"] == pytest.approx(5.0)  # (2·¼ + 6·¾) / 1
    assert rows[0]["cells"][1]["count"] == 2
    assert rows[0]["cells"][0]["mean"] is None


def test_a_chart_puts_points_where_they_belong() -> None:
    drawn = chart([("a", [(0, 0.0), (10, 4.0)])], "x", "y")
    assert drawn is not None
    assert drawn["lines"][0]["points"] == "48.0,216.0 632.0,12.0"  # from corner to corner of the box
    assert chart([("a", [(1, 1.0)])], "x", "y") is None  # one point is no line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (3, "3"),
        (1234567, "1,234,567"),
        (0.5, "0.50"),
        (0.000012, "1.20e-05"),
        (0.0, "0.00"),
    ],
)
def test_figures_are_short(value: Any, text: str) -> None:
    assert figure(value) == text

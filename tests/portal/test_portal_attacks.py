"""A run whose every text is an attack: pages show it and do nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from portal_server import SAYS, Portal, logged_in, member, need_portal, portal

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
SCRIPT = f"""
printf '\\033]0;title\\007\\033[2J\\033[31mred {EVIL}\\033[0m\\n'
printf 'user \\342\\200\\256 gnp.exe\\n'
head -c 10000000 /dev/zero | tr '\\0' 'x'; echo
echo 'last {EVIL}'
mkdir -p "$MUSTER_SHARED/{EVIL.replace("/", "_")}"
printf '%s' '{EVIL}' > "$MUSTER_SHARED/page.html"
printf '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"/>' > "$MUSTER_SHARED/picture.png"
python3 -c 'import sys; from muster import record; record.metric(sys.argv[1], 1.5, sys.argv[1], step=1)' '{EVIL}'
ln -s /etc/passwd "$MUSTER_SHARED/passwd"
ln -s / "$MUSTER_SHARED/root"
mkfifo "$MUSTER_SHARED/fifo"
echo 'ValueError: {EVIL}' >&2
exit 1
"""


@pytest.fixture(scope="module")
def attack(portal: Portal) -> str:
    with member(portal, "mallory", "evil") as client:
        text = SAYS.format(name="attack", script=json.dumps(SCRIPT))
        run = client.submit(
            text + json.dumps({"env": {"SAID": EVIL}, "parameters": {"said": EVIL}})[1:-1].replace("}, ", "}\n")
        )
        stopped = portal.job(client, "stopped-attack", "sleep 600", wait=False)
        client.http.post(f"/api/v1/runs/{stopped}/stop", json={"now": True, "reason": EVIL})
        client.wait(stopped)
        client.wait(run)
        return run


@pytest.mark.parametrize(
    "tab",
    [
        "",
        "/console",
        "/metrics",
        "/files?path=shared",
        "/files?path=shared/page.html",
        "/files?path=shared/picture.png",
        "/events",
        "/file",
        "/result",
    ],
)
def test_what_a_run_writes_is_shown_and_never_run(tab: str, browser: Browser, portal: Portal, attack: str) -> None:
    with logged_in(browser, portal, "mallory", f"/jobs/{attack}{tab}") as (page, seen):
        page.wait_for_timeout(800)
        assert page.evaluate("window.hacked") is None
        assert [error for error in seen.errors if "Content Security" in error or "hacked" in error] == []
        assert page.title().startswith("attack")


def test_pages_that_name_several_runs_show_what_they_say_and_run_nothing(browser: Browser, portal: Portal, attack: str) -> None:
    need_portal()
    with logged_in(browser, portal, "mallory") as (page, seen):
        stopped = attack.replace("attack", "stopped-attack", 1).rsplit("-", 3)[0]
        for path, text in {
            "/": None,
            "/jobs": EVIL,  # why the run was stopped
            f"/jobs?search={quote(EVIL)}": None,
            f"/jobs/{attack}/compare?with={stopped}": EVIL,  # fields of the jobs
            f"/jobs/{attack}/metrics": "<script>window.hacked=1</script>",  # the name of a curve
            f"/jobs/{attack}/compare?with={quote(EVIL)}": EVIL,
            f"/jobs/{attack}/endpoints": None,
            f"/submit?clone={attack}": None,
            "/cluster": None,
            "/projects/evil": None,
        }.items():
            page.goto(portal.server.url + path)
            page.wait_for_timeout(300)
            if text:
                page.locator("main", has_text=text).wait_for()
            assert page.locator("img[src=x]").count() == 0, path
            assert page.evaluate("window.hacked") is None, path
        assert [error for error in seen.errors if "Content Security" in error or "hacked" in error] == []


def test_the_console_shows_a_huge_line_escapes_and_marks_as_what_they_are(
    browser: Browser, portal: Portal, attack: str
) -> None:
    with logged_in(browser, portal, "mallory", f"/jobs/{attack}/console?process=rank-0") as (page, _):
        page.get_by_text("ValueError").first.wait_for()
        page.click("[data-top]")
        first = page.locator(".row", has_text="red <script>")
        first.wait_for()
        assert first.locator(".ansi-1").count() == 1
        assert "‹U+202E›" in page.inner_text("[data-screen]")
        assert page.evaluate("Math.max(...[...document.querySelectorAll('.row')].map(row => row.textContent.length))") < 5000
        assert page.locator(".row .more").count() > 0


@pytest.mark.parametrize(
    "path",
    [
        "shared/passwd",
        "shared/root/etc/passwd",
        "shared/fifo",
        "shared/../run.json",
        "../../server.db",
        "attempts/1/nodes/0/facts.json",
        "attempts/1/nodes/0/logs/../facts.json",
        "/etc/passwd",
        "",
    ],
)
def test_links_and_paths_lead_nowhere_else(path: str, portal: Portal, attack: str) -> None:
    with portal.server.http(portal.administrator) as http:
        assert http.get(f"/api/v1/runs/{attack}/file", params={"path": path}).status_code == 404


def test_files_come_to_be_stored_and_not_to_be_opened(portal: Portal, attack: str) -> None:
    with portal.server.http(portal.administrator) as http:
        stored = http.get(f"/api/v1/runs/{attack}/file", params={"path": "shared/page.html"})
        assert (stored.headers["content-type"], stored.headers["content-disposition"][:10]) == (
            "application/octet-stream",
            "attachment",
        )
        shown = http.get(f"/api/v1/runs/{attack}/file", params={"path": "shared/page.html", "show": "1"})
        assert shown.headers["content-type"] == "text/plain; charset=utf-8"
        assert shown.headers["x-content-type-options"] == "nosniff"
        listed = http.get(f"/api/v1/runs/{attack}/files", params={"path": "shared"}).json()["entries"]
        assert {
            entry["name"]: entry["kind"] for entry in listed if entry["name"] in ("passwd", "root", "fifo")
        } == dict.fromkeys(("passwd", "root", "fifo"), "other")


def test_the_search_is_literal_and_bounded(portal: Portal, attack: str) -> None:
    with portal.server.http(portal.administrator) as http:
        lines = [*http.get(f"/api/v1/runs/{attack}/search", params={"text": "(x+x+)+y"}).iter_lines()]
        assert lines[-1] == '{"end":{"complete":true,"hits":0}}'
        found = http.get(f"/api/v1/runs/{attack}/search", params={"text": "xxxx", "limit": 1}).text.splitlines()
        assert len(found[0]) < 1000 and '"hits":1' in found[-1]


def test_state_is_changed_by_own_pages_alone(portal: Portal, attack: str) -> None:
    with portal.server.session("mallory") as http:
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            assert http.delete(f"/api/v1/runs/{attack}", headers=headers).status_code == 403

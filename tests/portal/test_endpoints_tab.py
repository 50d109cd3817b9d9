"""The tab Endpoints in a real browser: endpoints by a click, xterm.js under the policy of the pages, and lines to copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from endpoint_scene import serving
from portal_server import AXE, Portal, logged_in, member, need_portal, portal
from run_client import RunClient

from browser import browser
from conftest import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "portal"]
SHELL = ".xterm-rows"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    need_portal()


@pytest.fixture(scope="module")
def lihua(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "lihua", "vision") as client:
        yield client


@pytest.fixture(scope="module")
def run(lihua: RunClient) -> Iterator[str]:
    """A run whose endpoint `web` is up."""
    found = serving(lihua)
    yield found
    end(lihua, found)


@contextmanager
def going(client: RunClient, **fields: Any) -> Iterator[str]:
    """A run that goes on until the end of the block."""
    found = client.submit(json.dumps({"name": "on-show", "sample": 0, "grace": "1s", **fields}))
    try:
        until(lambda: client.get(found)["state"] == "running", 60)
        yield found
    finally:
        end(client, found)


def end(client: RunClient, run: str) -> None:
    client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
    client.wait(run)


def open_terminal(page: Page) -> None:
    page.click("[data-open-terminal]")
    page.get_by_text("Connected to rank").wait_for()


def test_a_click_opens_an_endpoint_in_a_tab_and_an_origin_of_its_own(
    browser: Browser, portal: Portal, lihua: RunClient, run: str
) -> None:
    with logged_in(browser, portal, "lihua", f"/jobs/{run}") as (page, seen):
        page.click("nav.tabs a[href$='/endpoints']")
        row = page.locator("[data-endpoint=web][data-endpoint-state=ready]")
        assert "It can be opened." in row.inner_text()
        with page.context.expect_page() as opened:
            row.get_by_role("button", name="Open web").click()
        other = opened.value
        other.wait_for_selector("text=x-muster-token")
        assert other.url.startswith("http://web--") and ".localhost:" in other.url
        shown = other.content()
        assert "muster-endpoint=" not in shown and other.evaluate("document.cookie") == ""
        assert other.evaluate("window.opener") is None
        names = {cookie["name"]: cookie["domain"] for cookie in page.context.cookies()}
        assert names["muster"] == "127.0.0.1" and names["muster-endpoint"].endswith(".localhost")
        stolen = "fetch(location.origin.replace(location.hostname, '127.0.0.1') + '/api/v1/me', {credentials: 'include'})"
        assert other.evaluate(f"{stolen}.then(() => 'read', () => 'refused')") == "refused"
        assert seen.errors == []


def test_a_terminal_opens_beside_the_chosen_rank_resizes_and_closes(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    job = {"per": "device", "device": "cpu", "devices": 2, "framework": "command", "command": "sleep 1000"}
    with going(lihua, **job) as run, logged_in(browser, portal, "lihua", f"/jobs/{run}/endpoints") as (page, seen):
        assert not [url for url in seen.requests if "xterm" in url]  # only once a terminal is opened
        page.select_option("[data-rank]", "1")
        open_terminal(page)
        assert [url for url in seen.requests if "xterm.mjs" in url]
        page.keyboard.type("echo of $((6*7))x\n")
        page.locator(SHELL).get_by_text("42x").wait_for()
        page.keyboard.type("clear; printf '\\033[38;2;180;10;10mscarlet\\033[0m\\n'\n")
        letters = page.locator(SHELL).get_by_text("scarlet", exact=True)
        assert letters.evaluate("one => getComputedStyle(one).color") == "rgb(180, 10, 10)"
        rows = page.locator(f"{SHELL} > div")
        before = rows.count()
        page.evaluate("document.querySelector('[data-place]').style.height = '160px'")
        until(lambda: rows.count() < before)
        few = rows.count()
        page.wait_for_timeout(300)  # sizes are sent once they are settled
        page.keyboard.type("echo size $(stty size)\n")
        page.locator(SHELL).get_by_text(f"size {few} ").first.wait_for()
        page.keyboard.press("Shift+F6")
        assert page.evaluate("document.activeElement.hasAttribute('data-close-terminal')")
        page.keyboard.press("Enter")
        assert not page.is_visible("[data-place]") and page.is_enabled("[data-open-terminal]")
        assert page.evaluate("document.activeElement.hasAttribute('data-open-terminal')")
        assert seen.errors == []


def test_the_page_says_how_a_shell_ended_and_that_the_run_has(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with (
        going(lihua, command="sleep 1000") as run,
        logged_in(browser, portal, "lihua", f"/jobs/{run}/endpoints#terminal") as (page, seen),
    ):
        page.get_by_text("Connected to rank").wait_for()  # a link leads to it at once
        page.keyboard.type("exit 5\n")
        page.get_by_text("The shell ended with exit code 5.").wait_for()
        page.click("[data-close-terminal]")
        open_terminal(page)
        end(lihua, run)
        page.get_by_text("The job has ended, and this terminal with it.").wait_for(timeout=60_000)
        page.get_by_text("there is nothing left to log in to").wait_for()
        assert seen.errors == []


def test_a_job_without_endpoints_says_how_to_ask_for_them(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with (
        going(lihua, command="sleep 1000") as run,
        logged_in(browser, portal, "lihua", f"/jobs/{run}/endpoints") as (page, _),
    ):
        shown = page.inner_text("main")
        assert "This job serves nothing" in shown and "login: true" in shown
        assert f"muster ssh {run}" in shown and "ProxyCommand" not in shown


def test_an_environment_leads_to_its_jupyter_and_its_shell_at_once(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    job = {"kind": "environment", "endpoints": {"jupyter": True}, "idle_limit": "3h", "login": True}
    with going(lihua, **job) as run, logged_in(browser, portal, "lihua", f"/jobs/{run}", locale="zh-CN") as (page, seen):
        assert "连续 3h 无人使用时将自动结束" in page.inner_text("main")
        page.locator("[data-endpoint=jupyter]").wait_for()
        page.click("[data-language=en]")
        page.locator("main section").first.get_by_role("link", name="Open terminal").click()
        page.get_by_text("Connected to rank 0").wait_for()
        lines = page.locator("[data-own] [data-line]").all_inner_texts()
        assert f"muster ssh {run} --server={portal.server.url}" in lines
        assert f"ProxyCommand muster connect {run} --server={portal.server.url}" in lines
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("[data-own] [data-copy]").first.click()
        page.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == lines[0]
        assert seen.errors == []


def test_who_may_only_look_is_told_so(browser: Browser, portal: Portal, lihua: RunClient, run: str) -> None:
    with member(portal, "guest", "vision"), logged_in(browser, portal, "guest", f"/jobs/{run}/endpoints") as (page, _):
        assert "Only the owner of the job" in page.inner_text("main")
        assert page.locator("[data-open-endpoint], [data-terminal]").count() == 0


def serious(page: Page) -> list[Any]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize(
    "settings", [{"color_scheme": "light"}, {"color_scheme": "dark", "locale": "zh-CN"}], ids=["light", "dark"]
)
def test_axe_finds_nothing_serious_with_a_terminal_and_it_fits_a_phone(
    settings: dict[str, Any], browser: Browser, portal: Portal, lihua: RunClient, run: str
) -> None:
    with logged_in(browser, portal, "lihua", f"/jobs/{run}/endpoints", **settings) as (page, _):
        page.click("[data-open-terminal]")
        page.locator(SHELL).wait_for()
        page.wait_for_timeout(300)
        assert serious(page) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

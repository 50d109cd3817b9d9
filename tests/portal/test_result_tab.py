"""The tab Result in a real browser: the page is there first, and the report comes once it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

__all__ = ["browser", "portal"]
PART = "**/result?part=1"


@pytest.fixture(scope="module")
def lihua(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "lihua", "vision") as client:
        yield client


def test_the_frame_comes_first_with_a_line_that_tells_of_progress(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = portal.job(lihua, "reported", "echo done")
    held: list[Route] = []
    with logged_in(browser, portal, "lihua", f"/jobs/{run}", timezone_id="Asia/Shanghai") as (page, seen):
        page.route(PART, lambda route: held.append(route))
        page.click("nav.tabs a[href$='/result']")
        page.get_by_text("The report is being computed").wait_for()
        assert page.locator("[data-report] .report").count() == 0
        held.pop().continue_()
        page.locator("[data-report] .report").wait_for()
        assert "being computed" not in page.inner_text("main")
        moments = page.locator("[data-report] time")
        assert moments.count() and not [text for text in moments.all_text_contents() if "UTC" in text]
        assert moments.first.get_attribute("title") == "Asia/Shanghai"
        assert seen.errors == []


def test_a_report_that_did_not_come_can_be_asked_for_again(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = portal.job(lihua, "broken-off", "echo done")
    with logged_in(browser, portal, "lihua", f"/jobs/{run}") as (page, _):
        page.route(PART, lambda route: route.abort(), times=1)
        page.goto(f"{portal.server.url}/jobs/{run}/result")
        page.get_by_role("button", name="Try again").click()
        page.locator("[data-report] .report").wait_for()


def test_the_report_comes_by_itself_when_the_job_ends(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = portal.job(lihua, "soon-over", "sleep 1000", wait=False)
    with logged_in(browser, portal, "lihua", f"/jobs/{run}/result") as (page, _):
        page.get_by_text("computed once the job has ended").wait_for()
        lihua.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        page.locator("[data-report] .report").wait_for(timeout=60_000)

"""The list of jobs in a real browser: sorted by its headers, several states at once, columns, names and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "portal"]
LONG = "a-name-that-has-many-hyphens-and-words"


@pytest.fixture(scope="module")
def qian(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "qian", "sorting") as client:
        for name, script, priority in (("b-ok", "true", 120), (LONG, "exit 3", 180), ("c-ok", "true", 150)):
            text = f"name: {name}\nframework: command\nper: node\nsample: 0\npriority: {priority}\ncommand: '{script}'\n"
            client.wait(client.submit(text))
        yield client


def names(page: Page) -> list[str]:
    return page.locator("[data-rows] .name a").all_inner_texts()


def test_headers_sort_and_say_so(browser: Browser, portal: Portal, qian: RunClient) -> None:
    with logged_in(browser, portal, "qian", "/jobs") as (page, seen):
        page.click("thead a:has-text('Job')")
        page.wait_for_url("**sort=name&order=asc*")
        assert names(page) == [LONG, "b-ok", "c-ok"]
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith("Job")
        page.click("thead a:has-text('Job')")
        page.wait_for_url("**order=desc*")
        assert names(page) == ["c-ok", "b-ok", LONG]
        page.click("summary:has-text('Columns')")
        page.check("[data-column=priority]")
        page.check("[data-column=preemptible]")
        page.keyboard.press("Escape")
        page.click("thead a:has-text('Priority')")
        page.wait_for_url("**sort=priority&order=desc*")
        assert page.locator("[data-rows] .c-priority").all_inner_texts() == ["180", "150", "120"]
        assert page.locator("th.c-preemptible").is_visible()
        assert seen.errors == []


def test_several_states_stay_chosen_when_another_filter_is_used(browser: Browser, portal: Portal, qian: RunClient) -> None:
    with logged_in(browser, portal, "qian", "/jobs?state=failed&state=lost") as (page, seen):
        assert names(page) == [LONG]
        page.fill("[data-search]", "hyphens")
        page.press("[data-search]", "Enter")
        page.wait_for_url("**search=hyphens*")
        assert "state=failed&state=lost" in page.url
        page.click("[data-states] summary")
        page.uncheck("[data-states] [value=failed]")
        page.click("[data-states] summary")
        page.wait_for_url(lambda url: "state=failed" not in url and "state=lost" in url)
        assert "No job matches" in page.inner_text("main")
        assert seen.errors == []


def test_names_stand_on_one_line(browser: Browser, portal: Portal, qian: RunClient) -> None:
    with logged_in(browser, portal, "qian", "/jobs", viewport={"width": 1100, "height": 700}) as (page, _):
        heights = page.locator("[data-rows] .name a").evaluate_all("all => all.map(one => one.clientHeight)")
        assert len(set(heights)) == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 1100


def test_who_has_no_jobs_yet_is_led_to_the_form(browser: Browser, portal: Portal, qian: RunClient) -> None:
    with member(portal, "newbie", "empty"):
        for path in ("/", "/jobs"):
            with logged_in(browser, portal, "newbie", path) as (page, _):
                page.get_by_role("link", name="Submit a job").click()
                page.wait_for_url("**/submit")

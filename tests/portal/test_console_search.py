"""Long searches in the console: they tell how far they are, can be cancelled, and begin where a run failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "portal"]
SCRIPT = 'echo "Error: of rank $MUSTER_RANK"; test $MUSTER_RANK = 0 && sleep 60; sleep 2; exit 3'
TWO = f"name: two\nframework: command\nnodes: 2\nper: node\nretries: 1\nsample: 0\ncommand: [bash, -c, {json.dumps(SCRIPT)}]\n"
SLOW = """
const real = fetch;
window.fetch = async (path, options) => {
  if (!String(path).includes('/search')) return real(path, options);
  window.searched = [...(window.searched ?? []), String(path)];
  const encoder = new TextEncoder();
  const body = new ReadableStream({ start(controller) {
    controller.enqueue(encoder.encode('{"searched": 500000000}\\n'));
    options.signal.addEventListener('abort', () => controller.error(new DOMException('', 'AbortError')));
  } });
  return new Response(body);
};
true; // a function would be called
"""


@pytest.fixture(scope="module")
def sun(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "sun", "searching") as client:
        yield client


@pytest.fixture(scope="module")
def failed(portal: Portal, sun: RunClient) -> str:
    run = sun.submit(TWO)
    sun.wait(run)
    return run


def endless(page: Page) -> None:
    """Has the server answer searches with progress and no end, as in a log of many gigabytes."""
    page.evaluate(SLOW)


def test_a_search_tells_how_far_it_is_and_is_cancelled(browser: Browser, portal: Portal, sun: RunClient, failed: str) -> None:
    with logged_in(browser, portal, "sun", f"/jobs/{failed}/console") as (page, seen):
        page.get_by_text("Error: of rank").first.wait_for()
        endless(page)
        page.fill("[data-find] [data-search]", "needle")
        page.press("[data-find] [data-search]", "Enter")
        page.get_by_text("500 MB searched").wait_for()
        page.click("[data-cancel]")
        page.get_by_text("Cancelled; 0 lines were found").wait_for()
        assert page.is_visible("[data-go]") and page.is_hidden("[data-cancel]")
        assert seen.errors == []


def test_the_way_to_the_first_error_can_be_cancelled_too(browser: Browser, portal: Portal, sun: RunClient, failed: str) -> None:
    with logged_in(browser, portal, "sun", f"/jobs/{failed}/console") as (page, seen):
        page.get_by_text("Error: of rank").first.wait_for()
        endless(page)
        page.click("[data-error]")
        page.get_by_text("500 MB searched").wait_for()
        page.click("[data-cancel]")
        page.get_by_text("Cancelled").wait_for()
        assert seen.errors == []


def test_the_first_error_is_looked_for_in_the_rank_that_failed_first(
    browser: Browser, portal: Portal, sun: RunClient, failed: str
) -> None:
    with logged_in(browser, portal, "sun", f"/jobs/{failed}/console") as (page, seen):
        page.get_by_text("Error: of rank").first.wait_for()
        assert page.get_attribute("[data-console]", "data-failed") == "2/1/rank-1"
        page.click("[data-error]")
        assert page.locator(".row.hit").inner_text() == "Error: of rank 1"
        assert page.input_value("[data-log]") == "2/1/rank-1"
        assert page.is_hidden("[data-found]")
        assert seen.errors == []

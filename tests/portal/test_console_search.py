"""Long searches in the console: they tell how far they are, can be cancelled, and begin where a run failed."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

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
LINE, LINES = "line {:010} of a gigabyte\n", 1_000_000_000 // 30


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


def test_all_logs_are_downloaded_in_one_archive(browser: Browser, portal: Portal, sun: RunClient, failed: str) -> None:
    with logged_in(browser, portal, "sun", f"/jobs/{failed}/console") as (page, seen):
        page.get_by_text("Error: of rank").first.wait_for()
        with page.expect_download() as downloaded:
            page.click("[data-download]")
        assert downloaded.value.suggested_filename == f"{failed}-logs.zip"
        with zipfile.ZipFile(downloaded.value.path()) as archive:
            assert archive.testzip() is None
            ranks = [(attempt, node) for attempt in (1, 2) for node in (0, 1)]
            expected = {
                f"{failed}/attempt-{attempt}/node-{node}/rank-{node}.log": f"Error: of rank {node}\n" for attempt, node in ranks
            }
            assert {name: archive.read(name).decode() for name in archive.namelist()} == expected
        assert seen.errors == []


def gigabyte(route: Route) -> None:
    """Answers with bytes of a log that nobody has to write."""
    wanted = dict(re.findall(r"(offset|limit)=(\d+)", route.request.url))
    offset, size = int(wanted["offset"]), len(LINE.format(0)) * LINES
    first, last = (place // len(LINE.format(0)) for place in (offset, min(size, offset + int(wanted["limit"])) - 1))
    text = "".join(map(LINE.format, range(first, last + 1)))[offset - first * len(LINE.format(0)) :]
    route.fulfill(body=text[: int(wanted["limit"])], headers={"X-Muster-Size": str(size)})


def test_a_log_of_a_gigabyte_is_walked_through_with_little_in_memory(
    browser: Browser, portal: Portal, sun: RunClient, failed: str
) -> None:
    with logged_in(browser, portal, "sun") as (page, seen):
        page.route(re.compile(r"/log\?"), gigabyte)
        page.goto(f"{portal.server.url}/jobs/{failed}/console?attempt=2&node=1&process=rank-1")
        page.get_by_text(LINE.format(LINES - 1).strip()).wait_for()
        page.click("[data-top]")
        page.get_by_text(LINE.format(0).strip()).wait_for()
        page.locator("[data-place]").fill("500")
        page.get_by_text(re.compile(r"^line 00166\d{5} of")).first.wait_for()
        for direction in ("2", "-3"):
            for _ in range(20):  # further than is kept at once
                page.evaluate(f"document.querySelector('[data-screen]').scrollBy(0, {direction} * 200000)")
                page.wait_for_timeout(20)
        kept = page.evaluate("document.querySelector('[data-spacer]').clientHeight") / 18
        assert kept <= 20_002 and page.locator(".row").count() < 200
        shown = [int(text.split()[1]) for text in page.locator(".row").all_inner_texts()]
        assert shown == list(range(shown[0], shown[0] + len(shown)))
        assert seen.errors == []

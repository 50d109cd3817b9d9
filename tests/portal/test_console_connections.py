"""Consoles in many tabs of a browser: hidden ones hold no connection, and nothing is shown twice when they come back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from portal_server import Portal, logged_in, member, portal

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "portal"]
SCRIPT = "i=0; while true; do echo line $i of the console; i=$((i+1)); sleep 0.5; done"
JOB = f"name: talks\nframework: command\nnodes: 2\nper: node\nsample: 0\ngrace: 1s\ncommand: [bash, -c, {json.dumps(SCRIPT)}]\n"
# A browser without a window shows all of its tabs.
HIDES = """
let away = false;
Object.defineProperty(document, 'hidden', { get: () => away });
window.hide = (value) => { away = value; document.dispatchEvent(new Event('visibilitychange')); };
"""
TABS = 7  # a browser has six connections to a server


def numbers(page: Page, rank: int) -> list[int]:
    """The lines of a rank that are shown."""
    rows = page.locator(".row").all_inner_texts()
    found = (re.search(rf"^(?:rank-{rank} +)?line (\d+) of", row) for row in rows)
    return [int(one[1]) for one in found if one]


def write(page: Page, rank: int, count: int) -> None:
    """Waits until a rank has written so many lines more."""
    page.locator(".row", has_text=f"line {max(numbers(page, rank)) + count} of").first.wait_for()


def test_hidden_consoles_hold_no_connection_and_go_on_where_they_stopped(browser: Browser, portal: Portal) -> None:
    with member(portal, "wei", "talks") as client:
        run = client.submit(JOB)
        try:
            with logged_in(browser, portal, "wei") as (page, seen):
                page.context.add_init_script(HIDES)
                tabs = [page, *(page.context.new_page() for _ in range(TABS - 1))]
                for tab in tabs:
                    query = "?process=rank-1&node=1" if tab is tabs[-1] else ""
                    tab.goto(f"{portal.server.url}/jobs/{run}/console{query}")
                    tab.locator(".row", has_text="of the console").first.wait_for()
                    tab.evaluate("hide(true)")
                first, one = tabs[0], tabs[-1]
                before = max(numbers(first, 1))
                one.evaluate("hide(false)")
                write(one, 1, 5)
                assert max(numbers(first, 1)) == before  # it is hidden
                first.evaluate("hide(false)")
                write(first, 1, 5)
                for tab, rank in ((one, 1), (first, 0), (first, 1)):
                    found = numbers(tab, rank)
                    assert found == list(range(found[0], found[0] + len(found)))
                assert seen.errors == []
        finally:
            client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
            client.wait(run)

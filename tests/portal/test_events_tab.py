"""The events of a job in a real browser: in lines, each told once, and appearing while one looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
TWICE = json.dumps("test $MUSTER_ATTEMPT = 2; exit")
AGAIN = f"name: again\nframework: command\nnodes: 1\nper: node\nretries: 1\nsample: 0\ncommand: [bash, -c, {TWICE}]\n"


@pytest.fixture(scope="module")
def zhou(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "zhou", "watching") as client:
        yield client


def test_events_stand_in_lines_keep_their_zeros_and_are_told_once(browser: Browser, portal: Portal, zhou: RunClient) -> None:
    run = zhou.submit(AGAIN)
    assert zhou.wait(run)["state"] == "succeeded"
    with logged_in(browser, portal, "zhou", f"/jobs/{run}/events") as (page, seen):
        failures = page.locator("table.events tr.bad")
        assert failures.count() == 1 and "code 1" in failures.inner_text()
        ended = page.locator("table.events tr", has_text="process ended").first
        assert "code 0" in ended.inner_text()
        displays = page.locator("table.events .detail").evaluate_all("all => all.map(one => getComputedStyle(one).display)")
        assert displays and set(displays) == {"inline"}
        heights = page.locator("table.events tbody tr").evaluate_all("all => all.map(one => one.clientHeight)")
        assert max(heights) < 60
        assert seen.errors == []


def test_events_appear_while_one_looks(browser: Browser, portal: Portal, zhou: RunClient) -> None:
    run = portal.job(zhou, "watched", "sleep 600", wait=False)
    with logged_in(browser, portal, "zhou", f"/jobs/{run}/events") as (page, seen):
        page.evaluate("window.kept = true")
        page.locator("table.events tr", has_text="process started").wait_for()
        zhou.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        page.locator("table.events tr", has_text="run ended").wait_for()
        assert page.evaluate("window.kept") is True
        assert seen.errors == []

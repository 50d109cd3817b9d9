"""What people do with a job from its page, in a real browser: pause it, resume it, and change its priority."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, served
from run_client import RunClient

from browser import browser
from conftest import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]
JOB = "name: {name}\ndevice: cpu\ncommand: sleep 1000\nsample: 0\ngrace: 1s\n"


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    with served('[pools.local]\ntrusted = true\npaths = ["/"]\ncpu = 1\n') as found:
        yield found


@pytest.fixture(scope="module")
def lihua(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "lihua", "vision") as client:
        yield client


@pytest.fixture
def runs(lihua: RunClient) -> Iterator[tuple[str, str]]:
    """One that holds the only device, and one that waits for it."""
    first = lihua.submit(JOB.format(name="holder"))
    until(lambda: lihua.get(first)["state"] == "running", 60)
    second = lihua.submit(JOB.format(name="waiter"))
    yield first, second
    for run in (second, first):
        lihua.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        lihua.wait(run)


def test_a_waiting_job_gets_another_priority_is_paused_and_resumed(
    browser: Browser, portal: Portal, lihua: RunClient, runs: tuple[str, str]
) -> None:
    waiting = runs[1]
    with logged_in(browser, portal, "lihua", f"/jobs/{waiting}") as (page, seen):
        head = page.locator("[data-head]")
        head.get_by_role("button", name="Priority 150").click()
        assert "from 100 to 200" in page.inner_text("dialog")
        page.keyboard.type("180")
        page.keyboard.press("Enter")
        head.get_by_role("button", name="Priority 180").wait_for()
        assert lihua.get(waiting)["priority"] == 180
        head.get_by_role("button", name="Pause").click()
        head.get_by_text("It does not start by itself").wait_for()
        assert "paused by lihua" in head.inner_text()
        assert lihua.get(waiting)["paused"] is True
        page.goto(f"{portal.server.url}/jobs/{waiting}/console")  # all tabs have the head
        head.get_by_role("button", name="Resume").click()
        head.get_by_text("It starts by itself").wait_for()
        assert lihua.get(waiting)["paused"] is False
        assert seen.errors == []


def test_a_running_job_is_paused_after_a_question_and_goes_on_when_it_is_resumed(
    browser: Browser, portal: Portal, lihua: RunClient, runs: tuple[str, str]
) -> None:
    with logged_in(browser, portal, "lihua", f"/jobs/{runs[0]}", locale="zh-CN") as (page, seen):
        head = page.locator("[data-head]")
        assert head.locator("[data-priority]").count() == 0  # it does not wait
        page.click("[data-pause]")
        assert "暂停 holder？" in page.inner_text("dialog")
        page.click("dialog button:has-text('暂停')")
        head.get_by_text("它不会自动启动").wait_for(timeout=60_000)
        lihua.http.post(f"/api/v1/runs/{runs[1]}/stop", json={"now": True})
        page.click("[data-resume]")
        head.locator(".state.running").wait_for(timeout=60_000)
        assert lihua.get(runs[0])["preemptions"] == 1
        assert seen.errors == []


def test_who_may_only_look_finds_nothing_to_press(
    browser: Browser, portal: Portal, lihua: RunClient, runs: tuple[str, str]
) -> None:
    with member(portal, "guest", "vision"), logged_in(browser, portal, "guest", f"/jobs/{runs[1]}") as (page, _):
        assert page.locator("[data-pause], [data-priority], [data-stop]").count() == 0

"""Which project a submission in the browser begins with, for those who are in one, in several, or in none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, member
from run_client import RunClient
from submit_page import submitting, two_pools

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "two_pools"]


@pytest.fixture(scope="module")
def liping(two_pools: Portal) -> Iterator[RunClient]:
    """A member of two projects."""
    with member(two_pools, "liping", "audio") as client:
        with two_pools.server.http(two_pools.administrator) as admin:
            assert admin.post("/api/v1/projects", json={"name": "video"}).status_code == 201
            assert admin.put("/api/v1/projects/video/members/liping", json={"role": "member"}).status_code < 300
        yield client


def test_a_member_of_two_projects_chooses_one_and_meets_it_again(
    browser: Browser, two_pools: Portal, liping: RunClient
) -> None:
    with submitting(browser, two_pools, name="liping") as form:
        form.says("Say what runs")
        assert form.seen.errors == []
        assert form.page.locator("[data-wrong=project]").is_hidden()
        form.page.fill("#f-command", "true")
        form.says("1 thing to fix")
        assert "not named, and you are a member of 2 projects" in form.page.inner_text("[data-wrong=project]")
        assert form.page.get_attribute("#f-project", "aria-invalid") == "true"
        form.page.select_option("#f-project", "video")
        form.page.check("[name=device][value=cpu]")
        form.says("It would start now")
        liping.wait(form.submit())
    with submitting(browser, two_pools, name="liping") as form:
        form.says("Say what runs")
        assert form.page.input_value("#f-project") == "video"
        assert form.text == "project: video\n"
        assert form.seen.errors == []


def test_an_administrator_without_a_project_sees_no_error_before_writing_something(
    browser: Browser, two_pools: Portal, liping: RunClient
) -> None:
    with submitting(browser, two_pools, name="admin") as form:
        form.says("Say what runs")
        assert form.seen.errors == []
        form.page.click("[data-send]")
        assert form.page.evaluate("document.activeElement.id") == "f-command"
        form.page.fill("#f-command", "true")
        form.says("1 thing to fix")
        assert "you are a member of no project" in form.page.inner_text("[data-wrong=project]")

"""The page that submits a job, as tests use it: a server with two pools, and words for what people do on the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from portal_server import AXE as AXE
from portal_server import Portal, logged_in, member, need_portal, served
from run_client import RunClient

from browser import Seen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

POOLS = '[pools.local]\ntrusted = true\npaths = ["/"]\n[pools.small]\ntrusted = true\ncpu = 2\n'
EVIL = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def two_pools() -> Iterator[Portal]:
    need_portal()
    with served(POOLS) as found:
        yield found


@pytest.fixture(scope="module")
def wangfang(two_pools: Portal) -> Iterator[RunClient]:
    with member(two_pools, "wangfang", "speech") as client:
        yield client
        for run in client.http.get("/api/v1/runs", params={"limit": 500}).json()["items"]:
            client.http.post(f"/api/v1/runs/{run['run']}/stop", json={"now": True})
            client.wait(run["run"])


class SubmitPage:
    """A page with the form, in the browser of a user."""

    def __init__(self, page: Page, seen: Seen) -> None:
        self.page = page
        self.seen = seen

    @property
    def text(self) -> str:
        """The job file."""
        return self.page.input_value("[data-yaml]")

    def write(self, text: str) -> None:
        """Types into the job file."""
        self.page.fill("[data-yaml]", text)

    def says(self, text: str) -> None:
        """Waits until the check of the job says something."""
        self.page.locator("[data-verdict]:not([aria-busy])", has_text=text).wait_for()

    def holds(self, text: str) -> None:
        """Waits until the job file holds a text."""
        self.page.wait_for_function("text => document.querySelector('[data-yaml]').value.includes(text)", arg=text)

    def add(self, field: str, name: str, value: str) -> None:
        """Adds an entry to a list of the form."""
        self.page.click(f"[data-add={field}]")
        row = self.page.locator(f"[data-rows-of={field}] .row-of").last
        row.locator("[data-key]").fill(name)
        row.locator("[data-value]").fill(value)

    def submit(self) -> str:
        """Submits the job; returns the id of the run whose page it leads to."""
        self.page.click("[data-send]")
        self.page.wait_for_url("**/jobs/*")
        return self.page.url.rpartition("/")[2]

    @property
    def complaints(self) -> list[str]:
        """What scripts complained about; that a job is refused is no complaint."""
        return [one for one in self.seen.errors if "the server responded with a status of 40" not in one]


@contextmanager
def submitting(
    browser: Browser, portal: Portal, query: str = "", name: str = "wangfang", **settings: Any
) -> Iterator[SubmitPage]:
    with logged_in(browser, portal, name, f"/submit{query}", **settings) as (page, seen):
        page.locator("[data-verdict]:not([aria-busy])").wait_for()
        opened = SubmitPage(page, seen)
        yield opened
        assert opened.complaints == []
        assert page.evaluate("window.hacked") is None

"""The comparison of two runs in a real browser: values, fields, code and curves side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

from browser import browser
from muster.server.pages import assets

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
TRAINS = "import muster.record as r\nrate = {rate}\nfor i in range(30): r.metric('loss', rate / (i + 1), step=i)\n"
JOB = "name: pair\nframework: command\nper: node\ncode: .\nboot: train.py\nsample: 0\nenv: {{RATE: '{rate}'}}\n"


@pytest.fixture(scope="module")
def zhao(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "zhao", "tuning") as client:
        yield client


@pytest.fixture(scope="module")
def pair(zhao: RunClient) -> list[str]:
    """Two runs that differ in their code, in a field and in what they recorded."""
    runs = []
    for rate in (1, 2):
        code = zhao.send_code(train__py=TRAINS.format(rate=rate))
        runs.append(zhao.submit(JOB.format(rate=rate), code=code))
        zhao.wait(runs[-1])
    return runs


def test_two_runs_are_compared_by_fields_code_and_curves(
    browser: Browser, portal: Portal, zhao: RunClient, pair: list[str]
) -> None:
    if not assets.complete():
        pytest.skip("the portal is not built; run `make portal`")
    first, second = pair
    with logged_in(browser, portal, "zhao", f"/jobs/{first}/compare?with={second}") as (page, seen):
        row = page.locator("table.compared tbody tr", has_text="env.RATE")
        assert row.locator("td").all_inner_texts() == ["1", "2"]
        assert page.locator("table.compared").evaluate("table => getComputedStyle(table).display") == "table"
        assert page.locator(".diff .del").all_inner_texts() == ["-rate = 1"]
        assert page.locator(".diff .add").all_inner_texts() == ["+rate = 2"]
        page.locator("[data-chart=loss] canvas").wait_for()
        assert page.locator("[data-chart=loss] .u-series").count() == 3  # the steps, and a line of each run
        legend = page.locator("[data-chart=loss] .u-legend").inner_text()
        assert first in legend and second in legend
        assert seen.errors == []


def test_another_run_that_does_not_exist_is_named_above_the_form(
    browser: Browser, portal: Portal, zhao: RunClient, pair: list[str]
) -> None:
    with logged_in(browser, portal, "zhao", f"/jobs/{pair[0]}/compare?with=nonsense") as (page, _):
        assert "There is no such run as nonsense" in page.inner_text("main .problems")
        assert page.inner_text("main .problems code") == "nonsense"
        assert page.input_value("[data-compare] [name=with]") == "nonsense"
        page.fill("[data-compare] [name=with]", pair[1])
        page.press("[data-compare] [name=with]", "Enter")
        page.locator("table.compared").wait_for()

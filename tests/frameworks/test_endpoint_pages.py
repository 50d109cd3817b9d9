"""A real TensorBoard and a real Jupyter in a real Chromium: opened by a click on the page of their job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from endpoint_programs import WRITES, python, served
from portal_server import Portal, logged_in
from run_client import run_client

from browser import browser
from conftest import until
from muster_server import Administered

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "python", "served"]  # fixtures
PATIENCE = 120_000  # milliseconds: both load megabytes of scripts


def opened(page: Page, name: str) -> Page:
    """The page of an endpoint, once it is up and a click has opened it."""
    page.locator(f"[data-endpoint={name}][data-endpoint-state=ready]").wait_for(timeout=PATIENCE)
    with page.context.expect_page() as found:
        page.click(f"[data-open-endpoint={name}]")
    other = found.value
    other.set_default_timeout(PATIENCE)
    return other


def computed(lab: Page) -> bool:
    """Runs a cell. JupyterLab sends nothing to its kernel for one that was run too early; loaded again, it does."""
    lab.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(state="attached")
    lab.wait_for_timeout(2000)
    cell = lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click()
    cell.fill("print('computed', 6 * 7)")
    cell.press("Control+Enter")
    lab.wait_for_timeout(3000)
    if lab.locator(".jp-OutputArea-output").get_by_text("computed 42").is_visible():
        return True
    lab.reload()
    return False


def test_a_click_opens_tensorboard_which_draws_the_loss_of_the_run(browser: Browser, served: Administered, python: str) -> None:
    portal = Portal(served.server, served.administrator)
    job = {"boot": "writes.py", "python": python, "endpoints": {"tensorboard": "logs"}, "grace": "1s"}
    with run_client(served.server, served.administrator, "lihua") as owner:
        run = owner.submit(json.dumps(job), code=owner.send_code(writes__py=WRITES))
        with logged_in(browser, portal, "lihua", f"/jobs/{run}/endpoints") as (page, _):
            board = opened(page, "tensorboard")
            card = board.locator("scalar-card", has_text="loss")
            card.locator("line-chart canvas, line-chart svg path").first.wait_for()
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        owner.wait(run)


@pytest.mark.timeout(300)  # JupyterLab is large
def test_a_click_opens_jupyter_which_runs_a_cell(browser: Browser, served: Administered, python: str) -> None:
    portal = Portal(served.server, served.administrator)
    # JupyterLab asks `npm` where its packages are, if there is one; tests refuse whatever can install.
    env = {"PATH": "/usr/bin:/bin"}
    job = {"kind": "environment", "python": python, "endpoints": {"jupyter": True}, "grace": "1s", "env": env}
    with run_client(served.server, served.administrator, "lihua") as owner:
        run = owner.submit(json.dumps(job))
        with logged_in(browser, portal, "lihua", f"/jobs/{run}") as (page, _):
            lab = opened(page, "jupyter")
            lab.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
            until(lambda: computed(lab), 180)
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        owner.wait(run)

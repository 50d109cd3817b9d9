"""The grid of ranks: compact, one stop for the keyboard, the first failure in view."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from portal_server import Portal, logged_in, member, portal

from browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
MANY = """
const grid = document.querySelector('[data-ranks]');
const node = grid.firstElementChild;
grid.classList.add('small');
for (let at = 1; at < 128; at += 1) grid.append(node.cloneNode(true));
const last = grid.lastElementChild.querySelector('.cell');
for (const one of grid.querySelectorAll('.first')) one.classList.remove('first');
last.classList.add('first');
"""


def test_ranks_are_one_stop_of_the_tab_key_and_arrows_go_on(browser: Browser, portal: Portal) -> None:
    with member(portal, "shen", "grids") as client:
        script = json.dumps("test $MUSTER_RANK = 1 && exit 3; sleep 60")
        run = client.submit(f"name: grid\nframework: command\nnodes: 3\nper: node\ncommand: [bash, -c, {script}]\n")
        client.wait(run)
        with logged_in(browser, portal, "shen", f"/jobs/{run}") as (page, seen):
            assert page.locator(".cell[tabindex='0']").count() == 1
            page.locator(".cell.first").focus()
            page.keyboard.press("ArrowRight")
            assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("rank 2")
            page.keyboard.press("Home")
            assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("rank 0")
            assert page.locator(".cell[tabindex='0']").count() == 1
            page.evaluate(MANY)
            prepare = "url => import(url).then((module) => module.prepareRanks(document))"
            source = page.locator("script[src*='job.js']").get_attribute("src") or ""
            page.evaluate(prepare, source.replace("job.js", "rank_grid.js"))
            assert page.locator("[data-ranks]").evaluate("grid => grid.scrollHeight") < 128 * 12
            box = page.locator(".cell.first").bounding_box()
            outer = page.locator("[data-ranks]").bounding_box()
            assert box and outer and outer["y"] <= box["y"] <= outer["y"] + outer["height"]
            assert seen.errors == []

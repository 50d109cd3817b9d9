"""The metrics of a job in a real browser: by rank, by node and as a mean, with stragglers; and pictures among its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal_server import Portal, logged_in, member, need_portal, portal

from browser import browser
from muster.server.runs.series.thinned import Grid

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
SLOW_RANK = """import base64, os, pathlib
import muster.record as r
slow = os.environ["MUSTER_RANK"] == "2"
for i in range(50):
    r.metric("loss", 1 / (i + 1), step=i)
    r.metric("throughput", 40.0 if slow else 80.0 + i % 3, step=i)
    print("fps:", 7 + i)
picture = pathlib.Path(os.environ["MUSTER_SHARED"], "plot.png")
picture.write_bytes(base64.b64decode(os.environ["PIXEL"]))
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
JOB = f"""name: curve
framework: command
nodes: 2
devices: 2
device: cpu
per: device
code: .
boot: train.py
sample: 0
env: {{PIXEL: "{PIXEL}"}}
metrics: {{fps: {{pattern: "fps: ([0-9]+)"}}}}
"""


def test_the_mean_of_ranks_that_report_at_different_steps_is_one_line_without_jumps() -> None:
    fast = [(step, 90.0) for step in (10, 20, 30)]
    slow = [(step, 30.0) for step in (13, 26, 39)]
    grid = Grid.over([step for step, _ in [*fast, *slow]])
    assert grid.mean([fast, fast, slow]) == ([10, 13, 20, 26, 30], [70.0] * 5)
    assert grid.mean([[(0, 2.0), (10, 4.0)], [(5, 0.0)]]) == ([0, 5, 10], [1.0, 1.5, 2.0])
    assert grid.mean([[(1, 1.0)], [(2, 2.0)], [(3, 3.0)]]) == ([1, 2, 3], [2.0] * 3)
    many = [[(step / 7 + rank / 100, float(rank)) for step in range(5000)] for rank in range(3)]
    places, values = Grid.over([place for line in many for place, _ in line]).mean(many)
    assert len(places) <= 301 and set(values) == {1.0}


def test_metrics_are_drawn_by_rank_node_and_mean_and_stragglers_are_marked(browser: Browser, portal: Portal) -> None:
    need_portal()
    with member(portal, "wangwu", "curves") as client:
        run = client.submit(JOB, code=client.send_code(train__py=SLOW_RANK))
        assert client.wait(run)["state"] == "succeeded", client.log(run)
        with logged_in(browser, portal, "wangwu", f"/jobs/{run}/metrics") as (page, seen):
            for by, lines in (("mean", 1), ("node", 2), ("rank", 4)):
                page.click(f"[data-by={by}]")
                page.wait_for_url(f"**by={by}*")
                for chart in ("loss", "throughput", "fps"):  # the last is what its pattern finds in the logs
                    page.locator(f"[data-chart={chart}] .u-series").nth(lines).wait_for()  # the first is that of the steps
                    assert page.locator(f"[data-chart={chart}] .u-series").count() == lines + 1
            assert page.locator("[data-chart=throughput] [data-slow='2']").count() == 1
            assert page.locator("[data-chart=loss] [data-slow]").count() == 0
            page.click("[data-over=time]")
            page.wait_for_url("**over=time*")
            page.locator("[data-chart=loss] .u-series", has_text="time").first.wait_for()
            page.reload()
            page.locator("[data-over=time][aria-pressed=true]").wait_for()
            page.locator("[data-chart=loss] .u-series", has_text="time").first.wait_for()
            page.goto(f"{portal.server.url}/jobs/{run}/files?path=shared/plot.png")
            picture = page.locator("[data-preview] img")
            picture.wait_for()
            assert picture.evaluate("(one) => one.decode().then(() => one.naturalWidth)") == 1
            assert seen.errors == []

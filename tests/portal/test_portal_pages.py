"""The portal in a real browser: what people do with the list of jobs and the page of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import screenshots
from portal_server import AXE, Portal, logged_in, member, need_portal, portal
from run_client import RunClient

from browser import Seen, browser
from muster.server.pages import assets

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "portal"]
RECORDS = 'from muster import record\nfor step in range(20): record.metric("loss", 1 / (step + 1), step=step)'
SCRIPTS = """performance.getEntriesByType('resource').filter((one) => /\\.m?js$/.test(new URL(one.name).pathname))
  .reduce((sum, one) => sum + one.encodedBodySize, 0)"""
ENDLESS = "i=0; while true; do echo line $i of the console; i=$((i+1)); sleep 0.2; done"


@pytest.fixture(scope="module")
def lihua(portal: Portal) -> Iterator[RunClient]:
    """A user with a run that succeeded, one that failed, and one that goes on."""
    with member(portal, "lihua", "vision") as client:
        portal.job(client, "quiet-success", f"echo done; echo checkpoint > $MUSTER_SHARED/model.ckpt; python3 -c '{RECORDS}'")
        portal.job(client, "loud-failure", "for i in $(seq 3000); do echo step $i; done; echo 'ValueError: no data'; exit 3")
        portal.job(client, "still-going", ENDLESS, wait=False)
        yield client
        for run in client.http.get("/api/v1/runs", params={"limit": 500}).json()["items"]:
            client.http.post(f"/api/v1/runs/{run['run']}/stop", json={"now": True})
            client.wait(run["run"])


def id_of(client: RunClient, name: str) -> str:
    return str(client.http.get("/api/v1/runs", params={"name": name}).json()["items"][0]["run"])


def names(page: Page) -> list[str]:
    return page.locator("[data-rows] .name a").all_inner_texts()


def test_the_list_is_searched_and_filtered_by_its_address(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/jobs") as (page, seen):
        assert set(names(page)) >= {"quiet-success", "loud-failure", "still-going"}
        page.fill("[data-search]", "LOUD")
        page.press("[data-search]", "Enter")
        page.wait_for_url("**/jobs?*search=LOUD*")
        assert names(page) == ["loud-failure"]
        page.goto(portal.server.url + "/jobs?state=succeeded&pool=local&user=lihua&project=vision&sort=name&order=asc")
        assert names(page) == ["quiet-success"]
        page.goto(portal.server.url + "/jobs?search=nothing-like-this")
        assert "No job matches" in page.inner_text("main")
        assert seen.errors == []


def test_home_has_what_goes_on_and_what_failed_with_its_reason(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua") as (page, seen):
        going, failed = (
            page.locator("section", has=page.locator("h2", has_text=title)) for title in ("Running", "Last failures")
        )
        going.get_by_role("link", name="still-going").wait_for()
        failed.get_by_role("link", name="loud-failure").wait_for()
        assert "exited with code 3" in failed.inner_text()
        assert page.get_by_role("link", name="quiet-success").count() == 0
        run = portal.job(lihua, "fails-later", "exit 4", wait=False)
        failed.locator(f"[data-row='{run}']", has_text="exited with code 4").wait_for()
        assert seen.errors == []


def test_a_new_job_appears_and_its_state_changes_without_reloading(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/jobs") as (page, seen):
        page.evaluate("window.kept = true")
        run = portal.job(lihua, "appears", "sleep 2", wait=False)
        row = page.locator(f"[data-row='{run}']")
        row.wait_for()
        row.locator("[data-state=succeeded]").wait_for()
        assert page.evaluate("window.kept") is True
        assert seen.errors == []


def test_all_tabs_of_a_browser_share_one_connection(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/jobs") as (page, _):
        second = page.context.new_page()
        second.goto(portal.server.url + "/")
        second.locator("[data-home]").wait_for()
        followed: list[str] = []
        page.context.on("request", lambda request: followed.append(request.url) if "/api/v1/events" in request.url else None)
        third = page.context.new_page()
        third.goto(portal.server.url + "/jobs")
        run = portal.job(lihua, "seen-by-all", "true", wait=False)
        for tab in (page, third):
            tab.locator(f"[data-row='{run}'] [data-state=succeeded]").wait_for()
        assert followed == []


def test_the_console_follows_what_a_rank_writes(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", f"/jobs/{id_of(lihua, 'still-going')}/console") as (page, seen):
        page.get_by_text("of the console").first.wait_for()
        number = int(page.locator(".row").last.inner_text().split("line ")[1].split()[0])
        page.get_by_text(f"line {number + 5} of the console").wait_for()
        assert seen.errors == []


def test_the_console_finds_text_and_the_first_error_in_a_long_log(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = id_of(lihua, "loud-failure")
    with logged_in(browser, portal, "lihua", f"/jobs/{run}/console") as (page, seen):
        page.get_by_text("ValueError: no data").first.wait_for()
        assert page.locator(".row").count() < 200
        page.fill("[data-find] [data-search]", "STEP 1234")
        page.press("[data-find] [data-search]", "Enter")
        page.get_by_text("1 lines found").wait_for()
        page.locator("[data-hits] button").click()
        assert page.locator(".row.hit").inner_text() == "step 1234"
        page.click("[data-error]")
        page.locator(".row.hit", has_text="ValueError").wait_for()
        with page.expect_download() as downloaded:
            page.click("[data-download]")
        assert downloaded.value.path().read_text().startswith("step 1\nstep 2\n")
        assert seen.errors == []


def test_a_run_is_stopped_from_its_page_and_the_reason_is_shown(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = portal.job(lihua, "to-be-stopped", ENDLESS, wait=False)
    with logged_in(browser, portal, "lihua", f"/jobs/{run}") as (page, seen):
        page.click("[data-head] [data-stop]")
        page.click("dialog button.danger")
        page.locator("[data-head] .state.stopped").wait_for(timeout=60_000)
        assert "stopped by lihua" in page.inner_text("[data-head]")
        assert seen.errors == []


def test_several_runs_are_stopped_at_once_after_a_question(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    runs = [portal.job(lihua, f"bulk-{number}", ENDLESS, wait=False) for number in range(2)]
    with logged_in(browser, portal, "lihua", "/jobs?search=bulk-") as (page, _):
        page.check("[data-all]")
        page.click("[data-bulk-bar] [data-stop]")
        assert "Stop 2 jobs?" in page.inner_text("dialog")
        page.click("dialog button.danger")
        for run in runs:
            page.locator(f"[data-row='{run}'] [data-state=stopped]").wait_for(timeout=60_000)


def test_a_run_is_deleted_only_after_its_name_was_typed(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with member(portal, "deleter", "garden") as client:
        run = portal.job(client, "goes-away", "true")
        with logged_in(browser, portal, "deleter", f"/jobs/{run}") as (page, _):
            page.click("[data-delete]")
            assert page.is_disabled("dialog button.danger")
            page.fill("dialog input", "goes-away")
            page.click("dialog button.danger")
            page.wait_for_url("**/jobs")
            assert client.http.get(f"/api/v1/runs/{run}").status_code == 404


def test_language_and_colours_are_switched_in_place_and_remembered(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/jobs") as (page, seen):
        page.click("[data-language=zh-CN]")
        assert page.inner_text("main h1") == "作业"
        assert page.title() == "作业 · Muster"
        assert page.get_attribute("[data-search]", "placeholder") == "名称、编号或用户"
        light = page.evaluate("getComputedStyle(document.body).color")
        page.select_option("[data-theme-choice]", "dark")
        dark = page.evaluate("getComputedStyle(document.body).color")
        assert light != dark
        page.goto(portal.server.url + "/")
        assert page.inner_text("main h1") == "首页"
        assert page.evaluate("getComputedStyle(document.body).color") == dark
        assert seen.errors == []


def test_times_are_shown_in_the_zone_of_the_viewer(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    shown = []
    for zone in ("Asia/Shanghai", "UTC"):
        with logged_in(browser, portal, "lihua", "/jobs?search=quiet-success", timezone_id=zone) as (page, _):
            page.locator("time[data-shown]").first.wait_for()
            shown.append(page.locator("time").first.inner_text())
    assert shown[0] != shown[1]


def test_everything_can_be_done_without_a_mouse(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/") as (page, seen):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("?")
        assert "Keyboard shortcuts" in page.inner_text("dialog")
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("j")
        page.wait_for_url("**/jobs")
        page.keyboard.press("/")
        page.keyboard.type("loud-failure")
        page.keyboard.press("Enter")
        page.wait_for_url("**search=loud-failure*")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/jobs/loud-failure-*")
        assert "exited with code 3" in page.inner_text("[data-head]")
        assert seen.errors == []


def test_files_are_listed_shown_and_downloaded(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = id_of(lihua, "quiet-success")
    with logged_in(browser, portal, "lihua", f"/jobs/{run}/files?path=shared") as (page, seen):
        page.get_by_role("link", name="model.ckpt", exact=True).click()
        assert page.locator("[data-preview] pre").inner_text() == "checkpoint\n"
        with page.expect_download() as downloaded:
            page.click("[data-preview] a.button")
        assert downloaded.value.suggested_filename == "model.ckpt"
        assert seen.errors == []


def test_two_users_do_not_see_each_other(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = id_of(lihua, "quiet-success")
    with member(portal, "maria", "speech"), logged_in(browser, portal, "maria", "/jobs?scope=all") as (page, _):
        assert "quiet-success" not in page.content()
        assert "lihua" not in page.content()
        for tab in (
            "",
            "/console",
            "/metrics",
            "/files",
            "/endpoints",
            "/events",
            "/file",
            "/job.yaml",
            "/log?process=rank-0",
            "/logs.zip",
            "/result",
            "/compare",
        ):
            answer = page.goto(f"{portal.server.url}/jobs/{run}{tab}")
            assert answer and answer.status == 404
            assert "quiet-success" not in page.inner_text("body")


def test_a_job_is_stopped_with_a_phone(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    run = portal.job(lihua, "on-the-way", ENDLESS, wait=False)
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    with logged_in(browser, portal, "lihua", **phone) as (page, seen):
        page.tap(f"a[href$='/jobs/{run}']")
        page.tap("[data-head] [data-stop]")
        page.tap("dialog button.danger")
        page.locator("[data-head] .state.stopped").wait_for(timeout=60_000)
        assert seen.errors == []


def test_metrics_are_drawn_and_a_page_loads_little_script(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    need_portal()
    record = "import muster.record as r\nfor i in range(50): r.metric('loss', 1 / (i + 1), step=i)\n"
    code = lihua.send_code(train__py=record)
    run = lihua.submit("name: curve\nframework: command\nper: node\ncode: .\nboot: train.py\nsample: 0\n", code=code)
    lihua.wait(run)
    with logged_in(browser, portal, "lihua", f"/jobs/{run}/metrics") as (page, seen):
        page.locator("[data-chart=loss] canvas").wait_for()
        assert seen.errors == []
        scripts = {
            url.split("/assets/")[1].split("/", 1)[1] for url in seen.requests if "/assets/" in url and url.endswith("js")
        }
    assert "vendor/uPlot.esm.js" in scripts
    assert sum(len(assets.assets()[name].compressed) for name in scripts) < 150_000


def faults(page: Page) -> list[str]:
    """What is wrong with a page that is shown: for those who do not see it, on a phone, and in bytes of scripts."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    said = [f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in found if one["impact"] in ("serious", "critical")]
    if (size := page.evaluate(SCRIPTS)) > 150_000:
        said.append(f"{size} bytes of scripts")
    wide = page.viewport_size
    assert wide
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(100)  # charts are drawn anew
    if (width := page.evaluate("document.documentElement.scrollWidth")) > 390:
        said.append(f"{width} pixels on a phone")
    page.set_viewport_size(wide)
    return said


@pytest.mark.parametrize(
    "settings", [{"locale": "en", "color_scheme": "light"}, {"locale": "zh-CN", "color_scheme": "dark"}], ids=["en", "zh-CN"]
)
def test_every_page_is_complete_guarded_and_for_everybody_and_has_a_picture(
    settings: dict[str, str], browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    need_portal()
    language = settings["locale"]
    wrong: dict[str, list[str]] = {}
    visited: set[str] = set()

    def visit(page: Page, seen: Seen, path: str, name: str = "") -> None:
        if path in visited:
            return
        visited.add(path)
        answer = page.goto(portal.server.url + path)
        page.wait_for_timeout(300)  # scripts fill the page
        name = name or path.strip("/").replace("/", "-") or "home"
        assert screenshots.take(page, name, language).stat().st_size > 5000
        errors = [error for error in seen.errors if "status of 400" not in error]  # the check of a form that is still empty
        found = [*screenshots.wrong_texts(page, language), *errors, *faults(page)]
        if not answer or not answer.ok:
            found.append("no page")
        elif "script-src 'self';" not in answer.headers["content-security-policy"]:
            found.append("no policy")
        seen.errors.clear()
        if found:
            wrong[name] = found

    for user in ("lihua", "admin"):  # an administrator has more pages
        with logged_in(browser, portal, user, **settings) as (page, seen):
            for path in [*screenshots.links(page, "sections"), "/account", "/projects/vision"]:
                visit(page, seen, path)
                for part in screenshots.links(page, "parts"):
                    visit(page, seen, part)
            for run in ("quiet-success", "loud-failure") if user == "lihua" else ():
                page.goto(f"{portal.server.url}/jobs/{id_of(lihua, run)}")
                for tab in screenshots.links(page, "tabs")[: None if run == "quiet-success" else 2]:
                    visit(page, seen, tab, f"job-{run}-{tab.split('/')[3] if tab.count('/') > 2 else 'overview'}")
            page.context.clear_cookies()
            visit(page, seen, "/login")
    assert wrong == {}
    assert len(visited) > 15

"""The pages of the cluster, projects, administration and account in a real browser: what people do there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from portal_server import AXE, Portal, logged_in, member, need_portal, served
from run_client import RunClient

from browser import browser
from muster_server import PASSWORD

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]
POOL = '[pools.local]\ntrusted = true\npaths = ["/"]\ncpu = 4\n'
JOB = (
    "name: {name}\nframework: command\nper: node\ndevice: cpu\ndevices: {devices}\ncommand: [sleep, '600']\nsample: 0\n"
    "grace: 1s\n"
)
NODE = "[data-node=localhost]"


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    """A server whose only node has four devices."""
    with served(POOL) as found:
        yield found


@pytest.fixture(scope="module")
def lihua(portal: Portal) -> Iterator[RunClient]:
    """A user with a run that has all devices, and three that wait for them."""
    with member(portal, "lihua", "vision") as client:
        runs = [client.submit(JOB.format(name=name, devices=4)) for name in ("holds-all", "first", "second", "third")]
        yield client
        for run in reversed(runs):
            client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        for run in runs:
            client.wait(run)


def queued(page: Page) -> list[str]:
    return page.locator("[data-queued] td:nth-child(2) a").all_inner_texts()


def wait_for_queue(page: Page, names: list[str]) -> None:
    page.wait_for_function(
        "names => [...document.querySelectorAll('[data-queued] td:nth-child(2) a')].map(one => one.innerText).join() === names",
        arg=",".join(names),
    )


def test_an_administrator_drains_a_node_and_resumes_it(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "admin", "/cluster") as (page, seen):
        page.locator(f"{NODE} [data-open=drain]").click()
        page.fill("dialog[open] [name=reason]", "new <b>driver</b>")
        page.click("dialog[open] button.danger")
        page.locator(f"{NODE}.drained").wait_for()
        assert "drained by admin" in page.inner_text(NODE)
        assert "new <b>driver</b>" in page.inner_text(NODE)
        with portal.server.http(portal.administrator) as http:
            assert http.get("/api/v1/pools/local").json()["nodes"][0]["drained"]["reason"] == "new <b>driver</b>"
        page.locator(f"{NODE} [data-send=DELETE]").click()
        page.locator(f"{NODE}.usable").wait_for()
        assert seen.errors == []


def test_the_picture_says_whose_run_has_which_devices(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/cluster") as (page, seen):
        group = page.locator(f"{NODE} .group.mine")
        group.wait_for(timeout=60_000)
        assert group.locator("i").count() == 4
        group.focus()
        assert "4 cpu: lihua, vision, holds-all-" in group.inner_text()
        assert page.locator("[data-open=drain]").count() == 0
        assert seen.errors == []


def test_an_administrator_reorders_the_queue(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "admin", "/cluster") as (page, seen):
        wait_for_queue(page, ["first", "second", "third"])
        page.locator("[data-queued^=third-] [data-up]").click()
        wait_for_queue(page, ["first", "third", "second"])
        page.locator("[data-queued^=second-] [aria-label='To the first place']").click()
        wait_for_queue(page, ["second", "first", "third"])
        page.locator("[data-queued^=third-]").drag_to(page.locator("[data-queued^=second-]"))
        wait_for_queue(page, ["third", "second", "first"])
        assert seen.errors == []


def test_a_member_pauses_and_resumes_an_own_run_and_cannot_reorder(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/cluster") as (page, _):
        row = page.locator("[data-queued^=first-]")
        row.get_by_role("button", name="Pause").click()
        page.locator("[data-queued^=first-]", has_text="paused").wait_for()
        assert page.locator("[data-up]").count() == 0
        row.get_by_role("button", name="Resume").click()
        row.get_by_role("button", name="Pause").wait_for()


def test_a_member_sees_no_names_of_runs_of_other_projects(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with member(portal, "maria", "speech"), logged_in(browser, portal, "maria", "/cluster") as (page, _):
        assert page.locator(f"{NODE} .group.hidden i").count() == 4
        shown = page.content() + page.request.get(portal.server.url + "/cluster?part=1").text()
        shown += page.request.get(portal.server.url + "/cluster/usage.csv").text()
        assert [name for name in ("holds-all", "first-", "lihua", "vision") if name in shown] == []
        assert "Nothing waits that you may see" in page.inner_text("[data-queue]")
        for path in ("/projects/vision", "/admin/users", "/admin/audit", "/admin/settings"):
            answer = page.goto(portal.server.url + path)
            assert answer and answer.status in (403, 404)
            assert "lihua" not in page.inner_text("main")


def test_the_cluster_changes_without_reloading(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/cluster") as (page, seen):
        page.evaluate("window.kept = true")
        run = lihua.submit(JOB.format(name="comes-later", devices=4))
        page.locator(f"[data-queued='{run}']").wait_for()
        lihua.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        page.locator(f"[data-queued='{run}']").wait_for(state="detached")
        assert page.evaluate("window.kept") is True
        assert seen.errors == []


def test_device_hours_are_drawn_and_downloaded(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    need_portal()
    with logged_in(browser, portal, "lihua", "/cluster?weeks=1") as (page, seen):
        page.locator("[data-chart] canvas").wait_for()
        assert "lihua" in page.inner_text("[data-used=user]")
        with page.expect_download() as downloaded:
            page.get_by_text("CSV").click()
        lines = downloaded.value.path().read_text().splitlines()
        assert lines[0] == "day,project,user,pool,kind,device_hours"
        assert ",vision,lihua,local,cpu," in lines[1]
        assert seen.errors == []


def test_a_quota_is_set_without_a_mouse_and_removed_after_a_question(
    browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    with logged_in(browser, portal, "admin", "/projects") as (page, seen):
        page.keyboard.press("j")
        while page.evaluate("document.activeElement.innerText") != "vision":
            page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/projects/vision")
        page.focus("[data-quotas] [name=devices]")
        page.keyboard.type("6")
        page.keyboard.press("Enter")
        page.get_by_text("4 of 6").wait_for()
        assert seen.errors == []
    with logged_in(browser, portal, "lihua", "/") as (page, _):
        assert "4 of 6" in page.inner_text("[data-quota-used]")
    with logged_in(browser, portal, "admin", "/projects/vision") as (page, _):
        page.locator("[data-quota='']").get_by_role("button", name="Remove").click()
        assert "Remove the cpu quota of vision?" in page.inner_text("dialog[open]")
        page.click("dialog[open] button.danger")
        page.get_by_text("No quotas: runs hold as many devices").wait_for()


def test_settings_of_a_project_are_saved_and_their_deletions_shown_before(
    browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    with logged_in(browser, portal, "admin", "/projects/vision") as (page, seen):
        page.fill("[name='settings.weight']", "2.5")
        page.fill("[name='settings.retention.records.age']", "90d")
        page.click("[data-preview-retention]")
        page.locator("[data-doomed='0']").wait_for()
        page.click("[data-settings] button.primary")
        page.get_by_text("Saved", exact=True).wait_for()
        with portal.server.http(portal.administrator) as http:
            settings = http.get("/api/v1/projects/vision").json()["settings"]
        assert settings == {"weight": 2.5, "retention": {"records": {"age": "90d"}}}
        page.fill("[name='settings.long_wait']", "soon")
        page.click("[data-settings] button.primary")
        page.locator(".toast.bad", has_text="long_wait").wait_for()
        assert [error for error in seen.errors if "400" not in error] == []


def test_a_webhook_is_added_with_a_secret_that_is_shown_once_and_deleted_by_its_name(
    browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    with logged_in(browser, portal, "admin", "/projects/vision") as (page, seen):
        page.fill("[name=url]", "https://example.com/hook")
        page.click("[data-webhooks] form button")
        secret = page.input_value("dialog [data-secret=secret]")
        assert secret.startswith("mwh_")
        page.keyboard.press("Escape")
        page.locator(".webhook", has_text="https://example.com/hook").wait_for()
        assert secret not in page.content()
        page.click(".webhook [data-send=DELETE]")
        assert page.is_disabled("dialog[open] button.danger")
        page.fill("dialog[open] input", "example.com")
        page.click("dialog[open] button.danger")
        page.locator(".webhook").wait_for(state="detached")
        assert seen.errors == []


def test_a_user_is_added_and_the_link_sets_the_password(browser: Browser, portal: Portal) -> None:
    with logged_in(browser, portal, "admin", "/admin/users") as (page, seen):
        page.fill("section [name=name]", "newcomer")
        page.click("section form button")
        link = page.input_value("dialog [data-secret=link]")
        page.click("dialog[open] .actions button")
        row = page.locator("[data-user=newcomer]")
        row.get_by_text("has set no password yet").wait_for()
        other = browser.new_context(locale="en-US")
        try:
            fresh = other.new_page()
            fresh.goto(link)
            fresh.fill("[name=password]", PASSWORD)
            fresh.fill("[name=again]", PASSWORD)
            fresh.click("main button")
            assert "The password is set" in fresh.inner_text("main")
        finally:
            other.close()
        with portal.server.session("newcomer") as http:
            assert http.get("/api/v1/me").json()["role"] == "member"
            row.locator("[data-open=disable]").click()
            page.click("dialog[open] button.danger")
            row.get_by_text("disabled", exact=True).wait_for()
            assert http.get("/api/v1/me").status_code == 401
        page.goto(portal.server.url + "/admin/audit?target=newcomer")
        assert "user.create" in page.inner_text("table.audit")
        assert seen.errors == []


def test_a_token_is_made_and_revoked(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "lihua", "/account") as (page, seen):
        page.fill("[data-tokens] [name=name]", "nightly")
        page.click("[data-tokens] form button")
        token = page.input_value("dialog [data-secret=secret]")
        page.keyboard.press("Escape")
        row = page.locator("[data-token=nightly]")
        row.wait_for()
        with portal.server.http(token) as http:
            assert http.get("/api/v1/me").status_code == 200
            row.locator("button").click()
            assert page.locator("dialog button.danger").is_disabled()  # what cannot be undone asks for the name
            page.fill("dialog input", "nightly")
            page.click("dialog button.danger")
            row.wait_for(state="detached")
            assert http.get("/api/v1/me").status_code == 401
        assert seen.errors == []


def test_the_password_is_changed_and_a_wrong_one_is_refused(browser: Browser, portal: Portal) -> None:
    with member(portal, "changer", "garden"), logged_in(browser, portal, "changer", "/account") as (page, _):
        for old, expected in (("not the old one", ".toast.bad"), (PASSWORD, ".toast:not(.bad)")):
            page.fill("[name=old]", old)
            page.fill("[name=new]", "another long phrase")
            page.fill("[name=again]", "another long phrase")
            page.get_by_role("button", name="Change the password").click()
            page.locator(expected).wait_for()
        with portal.server.session("changer", "another long phrase") as http:
            assert http.get("/api/v1/me").status_code == 200


@pytest.mark.parametrize(
    ("path", "english", "chinese"),
    [
        ("/cluster", "Cluster", "集群"),
        ("/projects", "Projects", "项目"),
        ("/admin/users", "Users", "用户"),
        ("/admin/audit", "Audit log", "审计日志"),
        ("/admin/settings", "Settings of the server", "服务器设置"),
        ("/account", "Your account", "我的账号"),
    ],
)
def test_the_language_is_switched_in_place(
    path: str, english: str, chinese: str, browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    with logged_in(browser, portal, "admin", path) as (page, seen):
        assert page.inner_text("main h1") == english
        page.click("header [data-language=zh-CN]")
        assert (page.inner_text("main h1"), page.title()) == (chinese, f"{chinese} · Muster")
        assert seen.errors == []


@pytest.mark.parametrize(
    "settings", [{"color_scheme": "light"}, {"color_scheme": "dark", "locale": "zh-CN"}], ids=["light", "dark"]
)
@pytest.mark.parametrize(
    "path", ["/cluster", "/projects", "/projects/vision", "/admin/users", "/admin/audit", "/admin/settings", "/account"]
)
def test_axe_finds_nothing_serious(
    path: str, settings: dict[str, Any], browser: Browser, portal: Portal, lihua: RunClient
) -> None:
    need_portal()
    with logged_in(browser, portal, "admin", path, **settings) as (page, _):
        page.wait_for_timeout(300)
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in serious] == []


def test_pages_fit_a_phone(browser: Browser, portal: Portal, lihua: RunClient) -> None:
    with logged_in(browser, portal, "admin", viewport={"width": 390, "height": 800}) as (page, _):
        for path in (
            "/cluster",
            "/projects",
            "/projects/vision",
            "/admin/users",
            "/admin/audit",
            "/admin/settings",
            "/account",
            "/results",
        ):
            page.goto(portal.server.url + path)
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path

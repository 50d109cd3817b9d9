"""The page that submits a job, in a real browser: form and job file, and what the server says of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal
from run_client import RunClient
from submit_page import AXE, EVIL, submitting, two_pools, wangfang

from browser import browser
from muster.job.model import FIELDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog

__all__ = ["browser", "two_pools", "wangfang"]
needs_environments = pytest.mark.skipif("kind" not in FIELDS, reason="jobs have no `kind` yet")


def test_a_job_of_one_node_is_submitted_and_its_page_opens(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.says("Say what runs")
        form.page.fill("#f-name", "one-node")
        form.page.fill("#f-command", 'echo "$GREETING from $0 $*"\nenv | grep -c TOKEN')
        form.page.check("[name=device][value=cpu]")
        form.add("parameters", "lr", "1e-3")
        form.add("env", "GREETING", "null")
        form.add("secrets", "HUB_TOKEN", "hush-hush")
        form.says("It would start now")
        assert "hush" not in form.text
        run = form.submit()
        assert form.page.inner_text("h1") == "one-node"
    ended = wangfang.wait(run)
    assert (ended["state"], ended["pool"]) == ("succeeded", "local")
    job = wangfang.get(run)["job"]
    assert (job["parameters"], job["env"], job["secrets"]) == ({"lr": "1e-3"}, {"GREETING": "null"}, ["HUB_TOKEN"])
    assert job["command"].splitlines()[1] == "env | grep -c TOKEN"


def test_a_distributed_job_is_submitted(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.page.fill("#f-name", "two-nodes")
        form.page.check("[value=distributed]")
        form.page.fill("#f-devices", "2")
        form.page.check("[name=device][value=cpu]")
        form.page.select_option("#f-per", "device")
        form.page.fill("#f-command", "echo rank $RANK")
        assert form.page.inner_text("[data-total]") == "2 × 2 = 4 devices"
        form.says("It would start now")
        run = form.submit()
    assert wangfang.wait(run)["state"] == "succeeded"
    job = wangfang.get(run)["job"]
    assert (job["nodes"], job["devices"], job["per"]) == (2, 2, "device")


@needs_environments
def test_an_environment_is_submitted_and_the_program_comes_back(
    browser: Browser, two_pools: Portal, wangfang: RunClient
) -> None:
    with submitting(browser, two_pools) as form:
        form.page.fill("#f-command", "python train.py")
        form.page.check("[value=environment]")
        form.holds("kind: environment")
        assert "command" not in form.text
        assert form.page.is_hidden("#f-command")
        assert form.page.is_checked("[data-endpoint=jupyter]")
        form.page.check("[value=one]")
        assert form.text == "command: python train.py\nendpoints:\n  jupyter: true\n"
        form.page.check("[value=environment]")
        form.page.fill("#f-name", "notebook")
        form.page.uncheck("[data-endpoint=jupyter]")
        form.page.check("[name=device][value=cpu]")
        form.page.fill("#f-idle_limit", "10m")
        form.add("endpoints", "web", "8000")
        form.says("It would start now")
        run = form.submit()
    job = wangfang.get(run)["job"]
    assert (job["kind"], job["idle_limit"], job["endpoints"]["web"]["port"]) == ("environment", 600.0, 8000)


def test_form_and_job_file_follow_each_other_and_comments_stay(
    browser: Browser, two_pools: Portal, wangfang: RunClient
) -> None:
    with submitting(browser, two_pools) as form:
        form.write("# of the team\nname: x # short\nenv: {A: 1e-3, B: two} # both\nnodes: 3\ncommand: echo\n")
        form.page.wait_for_function("() => document.querySelector('#f-nodes').value === '3'")
        assert form.page.input_value("#f-name") == "x"
        assert form.page.is_checked("[value=distributed]")
        assert form.page.locator("[data-rows-of=env] [data-value]").evaluate_all("all => all.map((one) => one.value)") == [
            "1e-3",
            "two",
        ]
        form.page.fill("#f-name", "y")
        form.page.locator("[data-rows-of=env] [data-value]").nth(1).fill("three: 3")
        form.page.click("[data-more] summary")
        form.page.fill("#f-time_limit", "2h")
        form.page.check("[value=one]")
        assert form.text == (
            '# of the team\nname: y # short\nenv: {A: 1e-3, B: "three: 3"} # both\ncommand: echo\ntime_limit: 2h\n'
        )
        form.page.fill("#f-command", "echo one\necho two")
        form.holds("command: |\n  echo one\n  echo two\n")
        form.page.fill("#f-name", "")
        form.page.wait_for_function("() => !document.querySelector('[data-yaml]').value.includes('name:')")


def test_mistakes_stand_at_their_fields_and_lines(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.write("name: x\ncommand: echo\ndevice: ascnd\ninputs:\n  data: obs://no-such-bucket/x\nparametres: {}\n")
        form.says("2 things to fix")
        assert "ascnd is not known; did you mean ascend?" in form.page.inner_text("[data-wrong=device]")
        assert form.page.locator("[data-gutter] .bad").all_inner_texts() == ["3", "6"]
        form.page.get_by_role("button", name="line 6").click()
        assert form.page.evaluate("getSelection().toString()") == "parametres: {}"
        form.write("name: x\ncommand: echo\ninputs:\n  data: obs://no-such-bucket/x\n")
        form.says("1 thing to fix")
        wrong = form.page.locator("[data-rows-of=inputs] [data-wrong-entry]")
        assert "no-such-bucket" in wrong.inner_text()
        assert form.page.get_attribute("[data-rows-of=inputs] [data-value]", "aria-invalid") == "true"
        form.page.click("[data-send]")  # it leads to what is wrong
        assert form.page.evaluate("document.activeElement.value") == "obs://no-such-bucket/x"


def test_the_form_rests_while_the_job_file_cannot_be_read(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.write("name: x\ncommand: [echo\n")
        form.says("1 thing to fix")
        assert form.page.is_disabled("#f-name")
        form.write("name: x\nname: y\ncommand: echo\n")
        form.says("stands twice, on line 1 too")
        form.write("name: y\ncommand: echo\n")
        form.says("It would start now")
        assert form.page.input_value("#f-name") == "y"
        assert form.page.is_enabled("#f-name")


def test_it_says_why_a_job_would_wait_and_offers_what_fits(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    holder = wangfang.submit("name: holder\ncommand: sleep 600\ndevices: 2\ndevice: cpu\npool: small\ntime_limit: 20m\n")
    with submitting(browser, two_pools) as form:
        form.write("name: later\ncommand: echo\npool: small\ndevice: cpu\n")
        form.says("It would wait: ")
        form.page.locator(".choice.none-free", has_text="0 of 2 free").wait_for()
        form.page.click("[data-language=zh-CN]")
        form.says("提交后将等待：")
        form.page.click("[data-language=en]")
        form.page.fill("#f-devices", "3")
        form.says("It could never start")
        form.page.get_by_role("button", name="Ask for 1 × 2").click()
        form.says("It would wait: ")
        assert form.page.input_value("#f-devices") == "2"
    wangfang.http.post(f"/api/v1/runs/{holder}/stop", json={"now": True})


def test_devices_that_ascend_nodes_give_are_offered(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.write("name: ring\ncommand: echo\ndevice: ascend\ndevices: 3\n")
        form.page.locator("[data-offers]", has_text="1, 2, 4 or 8").wait_for()
        assert form.page.locator("[data-offers] button").all_inner_texts() == ["1", "2", "4", "8"]
        form.page.get_by_role("button", name="Use 4 devices per node").click()
        form.holds("devices: 4")


def test_a_job_is_submitted_without_a_mouse(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.page.focus("#f-name")
        form.page.keyboard.type("by-keys")
        for _ in range(40):
            form.page.keyboard.press("Tab")
            if form.page.evaluate("document.activeElement.id") == "f-command":
                break
        form.page.keyboard.type("echo keys")
        form.page.focus("[name=device]")
        while not form.page.is_checked("[name=device][value=cpu]"):
            form.page.keyboard.press("ArrowRight")
        form.says("It would start now")
        form.page.keyboard.press("Control+Enter")
        form.page.wait_for_url("**/jobs/by-keys-*")


def test_leaving_with_something_written_asks(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        asked: list[str] = []

        def leave(dialog: Dialog) -> None:
            asked.append(dialog.type)
            dialog.accept()

        form.page.on("dialog", leave)
        form.page.goto(two_pools.server.url + "/submit")
        assert asked == []
        form.page.fill("#f-name", "unsent")
        form.holds("unsent")
        form.page.goto(two_pools.server.url + "/jobs")
        assert asked == ["beforeunload"]


def test_hostile_names_are_shown_as_they_are(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools) as form:
        form.write(
            f"name: '{EVIL}'\ncommand: echo\nenv: {{'{EVIL}': '{EVIL}'}}\npool: '{EVIL}'\nproject: '{EVIL}'\ndevice: '{EVIL}'\n"
        )
        form.says("there is no such project")
        form.write(f"name: '{EVIL}'\ncommand: echo\nenv: {{'{EVIL}': '{EVIL}'}}\ndevice: '{EVIL}'\n'{EVIL}': 1\n")
        form.says("things to fix")
        assert EVIL in form.page.inner_text("[data-problems]")
        assert form.page.locator("main img").count() == 0


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious_on_a_full_form(
    language: str, colours: str, browser: Browser, two_pools: Portal, wangfang: RunClient
) -> None:
    with submitting(browser, two_pools, locale=language, color_scheme=colours) as form:
        form.page.click("[data-code=upload]")
        for field in ("parameters", "inputs", "outputs", "env", "secrets"):
            form.add(field, "some", "thing")
        form.write(form.text + "name: x\ntime_limit: never\ncommand: echo\nnodes: 2\n")
        form.page.locator("[data-wrong=time_limit]:visible").wait_for()
        assert form.page.get_attribute("html", "lang") == ("zh-CN" if language == "zh-CN" else "en")
        assert bool(re.search("[\u4e00-\u9fff]", form.page.inner_text("[data-form]"))) == (language == "zh-CN")
        form.page.evaluate(AXE.read_text())
        found = form.page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in serious] == []


def test_the_form_fits_a_phone_and_loads_little_script(browser: Browser, two_pools: Portal, wangfang: RunClient) -> None:
    with submitting(browser, two_pools, viewport={"width": 390, "height": 800}) as form:
        for field in ("parameters", "inputs", "env"):
            form.add(field, "some", "thing")
        assert form.page.evaluate("document.documentElement.scrollWidth") <= 390
        sizes = (
            "performance.getEntriesByType('resource').filter((one) => one.name.includes('.')).map((one) => one.encodedBodySize)"
        )
        assert sum(form.page.evaluate(sizes)) < 150_000

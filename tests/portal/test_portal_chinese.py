"""The portal in Chinese, where texts come from records, the queue and the checks of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from portal_server import Portal, logged_in, member, portal
from run_client import RunClient

import muster
from browser import browser
from muster.server.runs import chinese
from muster.server.runs.chinese import problems, reasons
from muster.server.runs.chinese.templates import PLACE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SOURCE = "\n".join(
    path.read_text("utf-8") for path in Path(muster.__file__).parent.rglob("*.py") if path.parent.name != "chinese"
)
BUILT = {"node", "ranks", "command"}  # places of templates that are words of a sentence's own


@pytest.fixture(scope="module")
def zhang(portal: Portal) -> Iterator[RunClient]:
    with member(portal, "zhang", "language") as client:
        portal.job(client, "went-well", "true")
        client.wait(
            client.submit("name: too-long\nframework: command\nper: node\ncommand: sleep 60\ntime_limit: 1s\ngrace: 1s\n")
        )
        portal.job(client, "went-wrong", """python3 -c 'raise ValueError("没有数据")'""")
        yield client


def test_reasons_are_said_in_chinese_and_what_programs_said_stays() -> None:
    assert chinese.reason("all 4 ranks succeeded") == "全部 4 个 rank 均已成功"
    failed = chinese.reason("rank 3 on node 0 (gpu-1) exited with code 3: ValueError: no data; none")
    assert failed.endswith("以退出码 3 结束：ValueError: no data; none")
    assert chinese.reason("continues after attempt 1 (paused by lihua); it waits to be started") == (
        "第 1 次尝试后继续（被 lihua 暂停）；等待启动"
    )
    assert chinese.reason("Segmentation fault; all 4 ranks succeeded") == "Segmentation fault; all 4 ranks succeeded"
    evil = "rank 1 on node 0 exited with code 1: {zero.__class__} {}"
    assert chinese.reason(evil).endswith("{zero.__class__} {}")


@pytest.mark.parametrize("texts", [reasons.TEXTS, problems.TEXTS], ids=["reasons", "problems"])
def test_each_sentence_that_is_translated_is_still_said(texts: dict[str, str]) -> None:
    def is_said(template: str) -> bool:
        words = [word for part in PLACE.split(template)[::3] for word in re.split(r"[\"'`;()\s,]+", part) if len(word) > 2]
        return all(word in SOURCE for word in words)

    assert [english for english in texts if not is_said(english)] == []
    assert [
        english for english, text in texts.items() if CHINESE.search(english) or not (CHINESE.search(text) or "{" in text)
    ] == []


def test_reasons_are_in_the_language_of_the_page_and_switched_in_place(
    browser: Browser, portal: Portal, zhang: RunClient
) -> None:
    with logged_in(browser, portal, "zhang", "/jobs", locale="zh-CN") as (page, seen):
        cells = page.locator("[data-cell=reason]")
        assert [text for text in cells.all_inner_texts() if not CHINESE.search(text)] == []
        assert "运行时间超过了时限" in "".join(cells.all_inner_texts())
        page.click("[data-language=en]")
        assert "it took longer than its time limit of" in "".join(cells.all_inner_texts())
        page.goto(portal.server.url + "/")
        page.click("[data-language=zh-CN]")
        assert "以退出码 1 结束" in page.inner_text("[data-home]")
        page.get_by_role("link", name="went-wrong").click()
        page.locator("[data-head]").wait_for()
        assert "以退出码 1 结束：ValueError: 没有数据" in page.inner_text("[data-head]")
        assert seen.errors == []


def test_a_reason_that_changes_while_one_looks_is_in_both_languages(browser: Browser, portal: Portal, zhang: RunClient) -> None:
    with logged_in(browser, portal, "zhang", "/jobs", locale="zh-CN") as (page, seen):
        run = portal.job(zhang, "changes", "sleep 2", wait=False)
        cell = page.locator(f"[data-row='{run}'] [data-cell=reason]")
        cell.get_by_text("rank 已成功").wait_for()
        page.click("[data-language=en]")
        assert cell.inner_text() == "its rank succeeded"
        assert seen.errors == []


def test_checks_of_a_job_answer_in_chinese(portal: Portal, zhang: RunClient) -> None:
    job = "nodes: many\ndevice: gpus\ntime_limit: 2 hours\nretry_on: [1]\nnonsense: 1\n"
    body = {"job": job, "code": zhang.send_code()}
    answer = zhang.http.post("/api/v1/runs/check", params={"language": "zh"}, json=body)
    assert answer.status_code == 400
    found = {problem["field"]: problem for problem in answer.json()["problems"]}
    assert found["nodes"]["message"].startswith("`many` 不是从 1 到")
    assert [field for field, one in found.items() if not CHINESE.search(one["message"] + one["hint"])] == []
    english = zhang.http.post("/api/v1/runs/check", json=body).json()["problems"]
    assert [problem["message"] for problem in english if CHINESE.search(problem["message"])] == []


def test_choices_on_pages_of_results_are_in_one_language(browser: Browser, portal: Portal, zhang: RunClient) -> None:
    with logged_in(browser, portal, "zhang", "/results") as (page, seen):
        assert page.locator("[name=sort] option").first.inner_text() == "newest"
        page.click("[data-language=zh-CN]")
        assert page.locator("[name=sort] option").first.inner_text() == "最新"
        assert page.locator("[name=model] option").first.inner_text() == "全部"
        assert seen.errors == []

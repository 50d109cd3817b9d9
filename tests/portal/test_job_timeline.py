"""The timeline of a job: waiting, attempts and their phases."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from portal_server import Portal, logged_in, member, portal

from browser import browser
from conftest import WriteJob
from muster.records.layout import RunDir
from muster.server.pages.runs import timeline
from muster.server.runs.reading import history
from traces import RunJson, put

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser", "portal"]


def rank(started: float | None, ended: float | None) -> dict[str, Any]:
    return {"rank": 0, "started": started, "ended": ended}


def attempt(number: int, started: float, ended: float | None, *ranks: dict[str, Any]) -> dict[str, Any]:
    state = "running" if ended is None else "stopped"
    return {"attempt": number, "state": state, "started": started, "ended": ended, "ranks": list(ranks)}


def shown(run: dict[str, Any], **fetched: tuple[float, float | None]) -> list[tuple[str, float, float | None]]:
    found = timeline.bars(run, lambda number: fetched.get(f"attempt{number}"))
    assert all(bar.x >= 0 and bar.x + bar.width <= timeline.WIDTH for bar in found)
    return [(bar.name.en, bar.start, bar.end) for bar in found]


def test_attempts_are_split_into_their_phases() -> None:
    run = {"created": 100.0, "ended": 200.0, "job": {"outputs": {"out": {}}}}
    run["attempts"] = [attempt(1, 110.0, 200.0, rank(130.0, 180.0), rank(131.0, 190.0))]
    assert shown(run, attempt1=(115.0, 125.0)) == [
        ("Waiting", 100.0, 110.0),
        ("Attempt 1", 110.0, 200.0),
        ("Preparing", 110.0, 130.0),
        ("Inputs", 115.0, 125.0),
        ("Ranks run", 130.0, 190.0),
        ("Outputs", 190.0, 200.0),
    ]


def test_a_preempted_run_waits_between_its_attempts_and_again_after_the_last() -> None:
    now = time.time()
    attempts = [attempt(1, now - 90, now - 80, rank(now - 89, now - 81)), attempt(2, now - 50, now - 40, rank(None, None))]
    run = {"created": now - 100, "ended": None, "attempts": attempts}
    waits = [(start, end) for name, start, end in shown(run) if name == "Waiting"]
    assert waits == [(now - 100, now - 90), (now - 80, now - 50), (now - 40, None)]


def test_a_retry_that_follows_at_once_has_not_waited() -> None:
    run = {"created": 0.0, "ended": 9.0, "attempts": [attempt(1, 1.0, 4.0), attempt(2, 4.1, 9.0)]}
    assert [name for name, _, _ in shown(run)].count("Waiting") == 1


def test_what_goes_on_has_no_end() -> None:
    now = time.time()
    run = {"created": now - 30, "attempts": [attempt(1, now - 20, None, rank(now - 10, None))]}
    assert shown(run)[1:] == [
        ("Attempt 1", now - 20, None),
        ("Preparing", now - 20, now - 10),
        ("Ranks run", now - 10, None),
    ]


def test_only_the_last_attempts_show_their_phases() -> None:
    attempts = [attempt(number, number * 10.0, number * 10.0 + 9.5, rank(number * 10.0 + 1, None)) for number in range(1, 9)]
    names = [name for name, _, _ in shown({"created": 5.0, "ended": 90.0, "attempts": attempts})]
    assert names.count("Preparing") == timeline.PHASED


@pytest.mark.parametrize("containment", ["namespaces"], indirect=True)
def test_nodes_note_when_they_fetch_inputs(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"cifar/1.bin": "one"})
    view = run_json(write_job({"nodes": 2, "inputs": {"data_url": "obs://b/cifar/"}}, **{"train.py": "print('done')"}))
    fetched = history.fetching(RunDir(view["dir"]), 1)
    assert fetched is not None and fetched[1] is not None
    started = min(one["started"] for one in view["attempts"][0]["ranks"] if one["rank"] is not None)
    assert view["attempts"][0]["started"] - 0.1 <= fetched[0] <= fetched[1] <= started + 0.1
    plain = run_json(write_job({}, **{"train.py": "print('done')"}))
    assert history.fetching(RunDir(plain["dir"]), 1) is None


def test_the_page_draws_the_phases_of_a_run_that_was_tried_again(browser: Browser, portal: Portal) -> None:
    with member(portal, "wu", "retrying") as client:
        script = json.dumps("test -e $MUSTER_SHARED/once && sleep 1 || { touch $MUSTER_SHARED/once; exit 3; }")
        run = client.submit(f"name: again\nframework: command\nper: node\nretries: 1\ncommand: [bash, -c, {script}]\n")
        client.wait(run)
        with logged_in(browser, portal, "wu", f"/jobs/{run}") as (page, seen):
            names = page.locator(".timeline .what").all_inner_texts()
            assert [name for name in names if name.startswith("Attempt")] == ["Attempt 1", "Attempt 2"]
            assert names.count("Ranks run") == 2
            assert page.locator(".timeline .inner .bar.ranks").count() == 2
            assert seen.errors == []

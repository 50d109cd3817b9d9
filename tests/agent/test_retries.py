"""`retries` starts new attempts, narrowed by `retry_on`; what earlier attempts did stays readable."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live
from test_run_states import Written

from behaviour import NodeName
from conftest import Muster, WriteJob, until
from muster.agent.supervisor.supervisor import tries_again
from muster.job import Job
from muster.records import derive
from muster.records.run_view import AttemptOutcome, Cause, State
from muster.records.state import read

RunJson = Callable[..., dict[str, Any]]

GANG = {"per": "device", "nodes": 2, "devices": 2}


def logs(view: dict[str, Any], rank: int = 0) -> list[str]:
    """What a rank wrote in each attempt."""
    return [Path(attempt["ranks"][rank]["log"]).read_text() for attempt in view["attempts"]]


@pytest.mark.conformance
def test_a_run_is_tried_again_until_it_succeeds(
    containment: str, run_json: RunJson, write_job: WriteJob, node_name: NodeName
) -> None:
    command = "echo attempt $MUSTER_ATTEMPT; test $MUSTER_ATTEMPT = 3 -o $MUSTER_RANK != 2 || exit 4"
    view = run_json(write_job({**GANG, "command": command, "retries": 5}))
    assert (view["exit"], view["state"]) == (0, "succeeded")
    assert [attempt["state"] for attempt in view["attempts"]] == ["failed", "failed", "succeeded"]
    assert [attempt["reason"] for attempt in view["attempts"][:2]] == [f"rank 2 on {node_name(1)} exited with code 4"] * 2
    assert [attempt["failure"]["tail"] for attempt in view["attempts"][:2]] == [["attempt 1"], ["attempt 2"]]
    assert logs(view, rank=2) == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]
    assert [[rank["state"] for rank in attempt["ranks"]][2] for attempt in view["attempts"]] == [
        "failed",
        "failed",
        "succeeded",
    ]
    assert "attempt 3" in view["reason"]


def test_a_run_that_never_succeeds_has_as_many_attempts_as_it_may(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "exit $MUSTER_ATTEMPT", "retries": 2}))
    assert (view["exit"], view["state"]) == (1, "failed")
    assert [attempt["failure"]["code"] for attempt in view["attempts"]] == [1, 2, 3]
    assert view["reason"] == "rank 0 on node 0 exited with code 3 (attempt 3 of 3)"


def test_without_retries_there_is_one_attempt(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "exit 1"}))
    assert len(view["attempts"]) == 1
    assert "attempt" not in view["reason"]


@pytest.mark.parametrize(("shell", "retry_on", "attempts"), [("exit 4", [3, 5], 1), ("kill -KILL $$", [137], 2)])
def test_retry_on_narrows_what_is_tried_again(
    shell: str, retry_on: list[Any], attempts: int, run_json: RunJson, write_job: WriteJob
) -> None:
    view = run_json(write_job({"command": shell, "retries": 1, "retry_on": retry_on}))
    assert len(view["attempts"]) == attempts, view["reason"]


def outcome(run: Path, failure: dict[str, Any] | None, stop: str = "failure") -> AttemptOutcome:
    """How an attempt ended that was stopped for such a cause, of which its agents recorded such a failure."""
    written = Written(run)
    written.attempt()
    written.stop(stop)
    if failure is not None:
        written.learned(0, **failure)
    written.event("attempt-ended", attempt=1)
    record = read(written.run)
    return derive.outcome(record, record.attempts[0])


KILLED, CRASHED = ({"kind": "signal", "code": None, "signal": int(number)} for number in (signal.SIGKILL, signal.SIGSEGV))


@pytest.mark.parametrize(
    ("failure", "retry_on", "again"),
    [
        ({"code": 4}, (4,), True),
        ({"code": 4}, (3, 5), False),
        ({"code": 4}, ("exit",), True),
        ({"code": 4}, ("signal", "oom", "lost"), False),
        (KILLED, ("signal",), True),
        (KILLED, (137,), True),
        (CRASHED, (137,), False),
        ({"code": 137}, (137,), True),  # of a shell whose program was killed
        (None, ("exit",), False),
        ({"code": 255}, (255,), True),
    ],
)
def test_what_retry_on_means_by_codes_and_causes(
    failure: dict[str, Any] | None, retry_on: tuple[Any, ...], again: bool, tmp_path: Path
) -> None:
    done = outcome(tmp_path / "run", failure, "failure" if failure else "finished")
    assert tries_again(Job(retries=1, retry_on=retry_on), [done]) is again
    assert tries_again(Job(retry_on=retry_on), [done]) is False
    assert tries_again(Job(retries=1, retry_on=retry_on), [done, done]) is False


@pytest.mark.parametrize("kind", ["plan", "output"])
def test_what_would_fail_again_is_not_tried_again(kind: str, tmp_path: Path) -> None:
    done = outcome(tmp_path / "run", {"kind": kind, "message": "no"})
    assert (done.state, tries_again(Job(retries=9), [done])) == ("failed", False)


def test_an_attempt_that_was_lost_with_its_supervisor_costs_no_retry(tmp_path: Path) -> None:
    failed, lost = outcome(tmp_path / "failed", {"code": 1}), AttemptOutcome(1, State.LOST, "", Cause.LOST, None, None)
    assert tries_again(Job(), [lost], earlier=1)
    assert not tries_again(Job(retries=9), [lost])
    assert tries_again(Job(retries=1), [lost, failed], earlier=1)
    assert not tries_again(Job(), [lost, failed], earlier=1)


def test_lost_nodes_that_can_be_had_again_use_up_retries(tmp_path: Path) -> None:
    failed, lost = outcome(tmp_path / "failed", {"code": 1}), AttemptOutcome(1, State.LOST, "", Cause.LOST, None, None)
    assert tries_again(Job(retries=1), [lost], nodes_return=True)
    assert tries_again(Job(retries=2, retry_on=("lost",)), [failed, lost], nodes_return=True)
    assert not tries_again(Job(retries=1, retry_on=("exit",)), [lost], nodes_return=True)
    assert not tries_again(Job(retries=1), [failed, lost], nodes_return=True)
    assert not tries_again(Job(), [lost], nodes_return=True)


def test_a_failed_setup_is_tried_again_where_the_job_says_so(run_json: RunJson, write_job: WriteJob) -> None:
    fields = {"setup": "test $MUSTER_ATTEMPT = 2", "command": "true", "retries": 1}
    assert run_json(write_job({**fields, "retry_on": ["setup"]}))["state"] == "succeeded"
    assert run_json(write_job({**fields, "retry_on": ["signal"]}))["state"] == "failed"


@pytest.mark.conformance(not_on_hosts="it kills an agent of this machine")
def test_a_lost_agent_is_replaced_where_the_job_says_so(containment: str, command: list[str], write_job: WriteJob) -> None:
    train = "import os, signal\nif os.environ['MUSTER_ATTEMPT'] == '1':\n  print('up', flush=True)\n  signal.pause()\n"
    with Live(command, write_job({**GANG, "retries": 1, "retry_on": ["lost"]}, **{"train.py": train})) as live:
        live.until_running(4)
        os.kill(live.agent(1), signal.SIGKILL)
        view = live.end()
        assert view["state"] == "succeeded"
        assert view["attempts"][0]["cause"] == "lost"
        assert view["attempts"][0]["reason"].startswith("the agent of node 1 ")


@pytest.mark.parametrize("words", [["stop"], ["stop", "--now"]])
def test_a_stopped_run_is_not_tried_again(
    words: list[str], containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({**GANG, "retries": 9}, **{"train.py": "import signal\nprint('up')\nsignal.pause()"})) as live:
        live.until_running(4)
        muster(words[0], live.run.id, *words[1:])
        view = live.end()
        assert (view["state"], len(view["attempts"])) == ("stopped", 1)


def test_a_run_that_fails_while_it_is_stopped_is_stopped(containment: str, command: list[str], write_job: WriteJob) -> None:
    train = """
    import signal, sys
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    print("up", flush=True)
    signal.pause()
    """
    with Live(command, write_job({**GANG, "retries": 9}, **{"train.py": train})) as live:
        live.until_running(4)
        live.interrupt()
        view = live.end()
        assert (view["exit"], view["state"], len(view["attempts"])) == (130, "stopped", 1)
        assert [process["code"] for process in live.processes] == [5] * 4


def test_while_it_is_tried_again_a_run_says_so(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    train = (
        "import os, signal, sys\nif os.environ['MUSTER_ATTEMPT'] == '1': sys.exit(6)\nprint('up', flush=True)\nsignal.pause()"
    )
    with Live(command, write_job({"retries": 1}, **{"train.py": train})) as live:
        until(lambda: live.log(attempt=2) == "up\n" and live.state == "running")
        shown = json.loads(muster("show", live.run.id, "--json").stdout)
        assert (shown["state"], shown["attempt"]) == ("running", 2)
        assert [attempt["state"] for attempt in shown["attempts"]] == ["failed", "running"]
        assert shown["attempts"][0]["reason"] == "rank 0 on node 0 exited with code 6"
        live.interrupt()
        live.end()


def test_each_attempt_has_ports_and_results_of_its_own(run_json: RunJson, write_job: WriteJob) -> None:
    command = "echo $MUSTER_RESULTS; touch $MUSTER_RESULTS/mine; ls $MUSTER_RESULTS; test $MUSTER_ATTEMPT = 2"
    first, second = logs(run_json(write_job({"command": command, "retries": 1})))
    assert [first.splitlines()[1:], second.splitlines()[1:]] == [["mine"], ["mine"]]
    assert first.splitlines()[0] != second.splitlines()[0]

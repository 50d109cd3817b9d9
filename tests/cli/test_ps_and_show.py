"""`muster ps` and `muster show`: what there is, how it stands, and why."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from going import going, log_of, says

from conftest import Muster, WriteJob, outside, until
from muster.cli.output import fit

RunJson = Callable[..., dict[str, Any]]


def record_runs(home: Path, template: dict[str, Any], count: int) -> list[str]:
    """Records of runs that ended, as files; every tenth failed. The newest comes last."""
    ids = []
    for number in range(count):
        run_id = f"old-20250101-{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}-abcd"
        folder = home / "runs" / run_id
        folder.mkdir(parents=True)
        state = "failed" if number % 10 == 0 else "succeeded"
        (folder / "final.json").write_text(json.dumps({**template, "run": run_id, "state": state, "dir": str(folder)}))
        (folder / "job.json").write_text("{}")
        (folder / "run.json").write_text("{}")
        ids.append(run_id)
    return ids


def replace_by_pipe(path: Path) -> None:
    """Whoever opens this file now waits forever."""
    path.unlink()
    os.mkfifo(path)


@pytest.fixture
def template(run_json: RunJson, write_job: WriteJob, muster: Muster) -> dict[str, Any]:
    """What the record of an ended run looks like."""
    view = run_json(write_job({"command": "true"}))
    final: dict[str, Any] = json.loads(Path(view["dir"], "final.json").read_text())
    muster("rm", view["run"])
    return final


def test_no_runs_are_no_error(muster: Muster) -> None:
    done = muster("ps")
    assert (done.returncode, done.stdout) == (0, "")
    assert "`muster run job.yaml` starts one" in done.stderr
    assert json.loads(muster("ps", "--json").stdout) == []


def test_runs_are_listed_the_newest_first_with_state_and_reason(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "exit 4", "name": "one"}))
    muster("run", write_job({"command": "true", "name": "two", "per": "device", "devices": 3}))
    header, *rows = muster("ps").stdout.splitlines()
    assert header.split() == ["RUN", "STATE", "RANKS", "TIME", "CREATED", "REASON"]
    assert [row.split("-")[0] for row in rows] == ["two", "one"]
    assert rows[0].split()[1:3] == ["succeeded", "3"]
    assert rows[1].endswith("rank 0 on node 0 exited with code 4")


def test_states_pick_runs(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "exit 4", "name": "bad"}))
    muster("run", write_job({"command": "true", "name": "good"}))

    def names(*words: str) -> list[str]:
        return [view["name"] for view in json.loads(muster("ps", "--json", *words).stdout)]

    with going(muster, write_job({"command": "echo ready; sleep 1000", "name": "busy"})):
        assert names() == ["busy", "good", "bad"]
        assert names("--state", "running") == ["busy"]
        assert names("--state", "failed", "--state", "succeeded") == ["good", "bad"]
        assert names("--state", "lost") == []
    done = muster("ps", "--state", "lost")
    assert "no runs that are lost" in done.stderr
    assert muster("ps", "--state", "happy").returncode == 2


@pytest.mark.long
def test_of_thousands_of_runs_only_those_shown_are_read(muster: Muster, home: Path, template: dict[str, Any]) -> None:
    ids = record_runs(home, template, 2000)
    for run_id in ids[:-25]:
        replace_by_pipe(home / "runs" / run_id / "final.json")
    done = muster("ps")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ids[:-26:-1]
    assert "and 1975 older ones; --all shows them" in done.stderr


@pytest.mark.long
def test_states_of_thousands_of_runs_are_read_from_their_final_records_alone(
    muster: Muster, home: Path, template: dict[str, Any]
) -> None:
    ids = record_runs(home, template, 2000)
    for run_id in ids:
        for name in ("job.json", "run.json"):
            replace_by_pipe(home / "runs" / run_id / name)
    failed = json.loads(muster("ps", "--state", "failed", "--json").stdout)
    assert [view["run"] for view in failed] == ids[::-1][9::10]
    assert len(muster("ps", "--all").stdout.splitlines()) == 2001


def test_what_is_not_a_run_is_passed_over(muster: Muster, home: Path, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    (home / "runs" / "notes.txt").write_text("mine")
    (home / "runs" / "empty").mkdir()
    (home / "runs" / ".hidden").mkdir()
    assert len(json.loads(muster("ps", "--json").stdout)) == 1
    assert json.loads(muster("show", "last", "--json").stdout)["name"] == "job"


@pytest.mark.conformance
def test_a_run_that_goes_on_is_shown_with_its_processes(engine: str, muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "echo ready; sleep 1000", "per": "device", "nodes": 2, "devices": 2})
    with going(muster, job) as run_id:
        view = json.loads(muster("show", run_id, "--json").stdout)
        assert (view["state"], view["phase"], view["reason"], view["result"]) == ("running", "running", "", None)
        attempt = view["attempts"][0]
        assert (attempt["state"], attempt["ended"]) == ("running", None)
        assert [node["state"] for node in attempt["nodes"]] == ["up", "up"]
        for rank in attempt["ranks"]:
            assert (rank["state"], rank["code"], rank["signal"], rank["ended"]) == ("running", None, None, None)
            pid = outside(rank["pid"], f"MUSTER_RUN={run_id}", f"MUSTER_RANK={rank['rank']}")
            assert Path(f"/proc/{pid}/cmdline").read_text().startswith(("sleep", "bash"))
            assert rank["started"] <= time.time()
        shown = muster("show", run_id).stdout
        assert f"{run_id}  running" in shown
        hosts = [] if engine in ("local", "server") else [node["host"] for node in attempt["nodes"]]
        for rank, line in enumerate(shown.splitlines()[-4:]):
            node = rank // 2
            words = [f"rank-{rank}", str(node), *hosts[node : node + 1], "running"]
            assert line.split()[: len(words)] == words


def test_an_ended_run_is_shown_with_codes_signals_and_times(muster: Muster, write_job: WriteJob, run_json: RunJson) -> None:
    text = "if [ $MUSTER_RANK = 1 ]; then sleep 0.2; echo broken; exit 5; fi; sleep 1000"
    view = run_json(write_job({"command": text, "per": "device", "devices": 2}))
    assert view["started"] <= view["ended"]
    assert view["created"] <= view["ended"]
    first, second = view["attempts"][0]["ranks"]
    assert (first["state"], first["signal"], first["code"]) == ("stopped", signal.SIGTERM, None)
    assert (second["state"], second["signal"], second["code"]) == ("failed", None, 5)
    assert view["attempts"][0]["started"] <= second["started"] < second["ended"] <= first["ended"] <= view["ended"]
    assert view["failure"]["tail"] == ["broken"]
    assert view["job"]["devices"] == 2
    shown = muster("show", "last").stdout
    assert "failed: rank 1 on node 0 exited with code 5" in shown
    assert "| broken" in shown
    assert "SIGTERM" in shown


def test_earlier_attempts_keep_their_own_reasons_while_a_later_one_runs(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "[ $MUSTER_ATTEMPT = 1 ] && exit 6; echo ready; sleep 1000", "retries": 1})
    run_id = muster("run", job, "--detach").stdout.strip()
    until(lambda: says(log_of(run_id, attempt=2), "ready"))
    until(lambda: json.loads(muster("show", run_id, "--json").stdout)["state"] == "running")
    first, second = json.loads(muster("show", run_id, "--json").stdout)["attempts"]
    assert (first["state"], first["cause"], first["ranks"][0]["state"]) == ("failed", "exit", "failed")
    assert first["reason"] == "rank 0 on node 0 exited with code 6"
    assert first["started"] <= first["ended"]
    assert (second["state"], second["ranks"][0]["state"]) == ("running", "running")
    assert first.keys() == second.keys()
    assert "attempt 1           failed: rank 0 on node 0 exited with code 6" in muster("show", run_id).stdout
    muster("stop", run_id)


def test_escapes_in_a_reason_do_not_reach_the_terminal(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({}, **{"train.py": r"raise ValueError('\x1b[31mred\x1b[0m \x07bell')"})
    muster("run", job)
    for words in (["ps"], ["show", "last"], ["wait", "last"]):
        said = muster(*words).stdout
        assert "ValueError: red  bell" in said
        assert "\x1b" not in said
        assert "\x07" not in said


def test_a_run_whose_command_was_killed_while_creating_it_is_lost(muster: Muster, home: Path, template: dict[str, Any]) -> None:
    (run_id,) = record_runs(home, template, 1)
    (home / "runs" / run_id / "final.json").unlink()
    view = json.loads(muster("show", run_id, "--json").stdout)
    assert (view["state"], view["phase"]) == ("lost", "ended")
    assert "the command that created it was killed" in view["reason"]
    assert muster("wait", run_id).returncode == 1


def test_names_that_ranks_give_stay_on_their_lines(muster: Muster, write_job: WriteJob) -> None:
    text = r"""
    import json, os
    with open(os.environ["MUSTER_RESULTS"] + "/record-0.jsonl", "w") as file:
        for name, unit in (("two\nlines", "s"), ("\x1b[31mred", "a\nb")):
            line = {"t": 1e9, "kind": "metric", "name": name, "value": 1.0, "unit": unit}
            file.write(json.dumps(line) + "\n")
    """
    ended = muster("run", write_job({}, **{"train.py": text}))
    for said in (ended.stderr, muster("show", "last").stdout):
        assert "\x1b" not in said
        lines = [line.strip() for line in said.splitlines()]
        assert any(line.startswith("two lines") for line in lines), said
        assert any(line.startswith("red") and line.endswith("a b") for line in lines), said


@pytest.mark.parametrize(("letter", "shown"), [("x", "x" * 9 + "…"), ("漢", "漢" * 4 + "…")])
def test_a_very_long_reason_is_cut_to_the_width_at_once(letter: str, shown: str) -> None:
    assert fit(letter * 1_000_000, 10) == shown

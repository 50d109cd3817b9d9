"""When a benchmark passes: targets and the time to reach them, limits on spread, phases, and runs that did not end well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from records import RunRecord, bench_of, make

from muster.bench.result import single


def result_of(*runs: RunRecord) -> dict[str, Any]:
    found = make(bench_of(*runs), [run.dir for run in runs])
    json.dumps(found, allow_nan=False)
    return found


def trained(home: Path, id: str = "job-1", rates: tuple[float, ...] = (100.0,), **job: Any) -> RunRecord:
    run = RunRecord(home, id, **{"devices": len(rates), **job})
    for rank, rate in enumerate(rates):
        run.timed(rank, rate)
        run.phase(rank, "proc", 20 + rank, 90 + rank)
    return run


def test_a_target_that_is_reached_has_its_time(home: Path) -> None:
    run = trained(home, bench={"targets": {"accuracy": 0.75}})
    for after, value in ((30, 0.5), (50, 0.75), (70, 0.74), (80, 0.76)):
        run.metric(0, "accuracy", value, after=after)
    found = result_of(run)
    assert found["verdict"]["passed"]
    told = {"metric": "accuracy", "target": 0.75, "better": "higher"}
    assert found["targets"] == [{**told, "reached": True, "value": 0.76, "seconds": 30.0, "reason": None}]
    assert [point["value"] for point in found["runs"][0]["metrics"]["accuracy"]["series"]] == [0.5, 0.75, 0.74, 0.76]


def test_a_target_that_is_missed_fails_the_benchmark(home: Path) -> None:
    run = trained(home, bench={"targets": {"loss": 0.1}})
    run.metric(0, "loss", 0.2)
    found = result_of(run)
    assert found["targets"][0]["reached"] is False
    assert found["targets"][0]["better"] == "lower"
    assert found["verdict"]["problems"] == ["loss is 0.2 and had to reach 0.1: run job-1 ended with 0.2"]


def test_every_repeat_has_to_reach_the_target(home: Path) -> None:
    runs = [trained(home, f"job-{number}", bench={"targets": {"accuracy": 0.7}}) for number in (1, 2)]
    for run, value in zip(runs, (0.6, 0.9), strict=True):
        run.metric(0, "accuracy", value)
    found = result_of(*runs)
    assert (found["targets"][0]["value"], found["targets"][0]["reached"]) == (0.75, False)


def test_a_target_without_times_is_reached_at_an_unknown_one(home: Path) -> None:
    run = trained(home, bench={"targets": {"accuracy": 0.7}})
    run.result_file(0, "accuracy.json", 0.71)
    target = result_of(run)["targets"][0]
    assert (target["reached"], target["seconds"], target["reason"]) == (True, None, "nothing tells when it was reached")


def test_servers_reach_a_target_when_the_last_of_them_does(home: Path) -> None:
    run = trained(home, rates=(5.0, 5.0), nodes=2, devices=1, bench={"scope": "server", "targets": {"accuracy": 0.7}})
    run.metric(0, "accuracy", 0.8, after=40)
    run.metric(1, "accuracy", 0.8, after=60)
    assert result_of(run)["targets"][0]["seconds"] == 40.0


@pytest.mark.parametrize(
    ("limits", "problems"),
    [
        ({"ranks": 0.2}, []),
        ({"ranks": 0.1}, ["ranks lie 20.00% apart in throughput, more than 10.00%"]),
        ({"nodes": 0.1}, ["it is not known how far nodes lie apart in throughput: only one value"]),
        ({"repeats": 0.1}, ["it is not known how far repeats lie apart in throughput: only one value"]),
    ],
)
def test_limits_on_spread(home: Path, limits: dict[str, float], problems: list[str]) -> None:
    found = result_of(trained(home, rates=(90.0, 110.0), bench={"limits": limits}))
    assert found["verdict"]["problems"] == problems


def test_a_limit_over_repeats(home: Path) -> None:
    runs = [
        trained(home, f"job-{number}", (rate,), bench={"limits": {"repeats": 0.1}}) for number, rate in enumerate((1.0, 3.0))
    ]
    found = result_of(*runs)
    assert found["limits"] == [{"over": "repeats", "limit": 0.1, "spread": 1.0, "held": False, "reason": None}]
    assert found["verdict"]["problems"] == ["repeats lie 100.00% apart in throughput, more than 10.00%"]


@pytest.mark.parametrize(
    ("losses", "spread", "reason"),
    [
        ((-1.0, -3.0), 1.0, None),
        ((0.0, 0.0), None, "a spread is relative to the mean, which is 0"),
        ((-2.0, 2.0), None, "a spread is relative to the mean, which is 0"),
    ],
)
def test_limits_on_numbers_that_are_not_positive(
    home: Path, losses: tuple[float, float], spread: float | None, reason: str | None
) -> None:
    metrics = {"loss": {"of": "rank", "over": "mean", "better": "lower"}}
    run = trained(home, rates=(5.0, 5.0), bench={"metric": "loss", "limits": {"ranks": 0.1}}, metrics=metrics)
    for rank, loss in enumerate(losses):
        run.metric(rank, "loss", loss)
    held = None if spread is None else False
    assert result_of(run)["limits"] == [{"over": "ranks", "limit": 0.1, "spread": spread, "held": held, "reason": reason}]


@pytest.mark.parametrize(("state", "words"), [("failed", "failed"), ("stopped", "was stopped"), ("lost", "was lost")])
def test_a_run_that_did_not_end_well_has_no_result(home: Path, state: str, words: str) -> None:
    run = trained(home, bench={}, state=state, reason="rank 0 on node 0 exited with code 3")
    found = result_of(run)
    assert found["verdict"]["problems"] == [f"run job-1 {words}: rank 0 on node 0 exited with code 3"]
    rate = found["runs"][0]["metrics"]["throughput"]
    assert (rate["value"], rate["reason"]) == (None, f"the run {words}")
    assert rate["ranks"][0]["value"] == 100.0  # what was reported stays visible


def test_a_record_without_an_end_is_told(home: Path) -> None:
    run = trained(home, bench={})
    Path(run.dir.final).unlink()
    assert result_of(run)["verdict"]["problems"] == ["run job-1 was lost: the record of the run has no end"]


def test_no_run_at_all_is_no_result() -> None:
    bench = {"format": "muster-bench/1", "id": "b", "name": "b", "created": 1.0, "ended": 2.0, "repeats": 1, "runs": []}
    found = make(bench, [])
    assert found["verdict"] == {"passed": False, "problems": ["0 of 1 repeats were run"]}
    assert set(found["train_result_info"].values()) == {None}


def test_many_missing_ranks_are_told_in_short(home: Path) -> None:
    run = RunRecord(home, "job-1", devices=64, bench={})
    run.timed(0, 5.0)
    problems = result_of(run)["verdict"]["problems"]
    assert len(problems) == 21
    assert problems[-1] == "43 more ranks of run job-1 have no throughput"


def test_a_plain_run_needs_no_numbers(home: Path) -> None:
    run = RunRecord(home, "job-1")
    bench = single(run.dir)
    found = make(bench, [run.dir])
    assert found["verdict"]["passed"]
    assert (found["id"], found["repeats"], bench.runs) == ("job-1", 1, ("job-1",))
    assert found["metrics"]["throughput"]["reason"] == "nobody recorded it"


def test_a_metric_that_the_job_names_is_needed(home: Path) -> None:
    run = trained(home, bench={"metric": "tokens"}, metrics={"tokens": {"unit": "tokens/s", "over": "sum"}})
    assert result_of(run)["verdict"]["problems"] == ["run job-1 has no tokens: nobody recorded it"]
    run.metric(0, "tokens", -1.0)
    assert result_of(run)["verdict"]["problems"] == [
        "rank 0 on node 0 of run job-1 reported a value of tokens that is not positive: -1.0"
    ]


def test_what_is_better_is_said_only_where_it_is_known(home: Path) -> None:
    run = trained(home, bench={}, metrics={"gap": {"better": "lower"}})
    for name in ("accuracy", "eval_loss", "gap", "seed"):
        run.metric(0, name, 0.5)
    found = result_of(run)
    wanted = {"throughput": "higher", "accuracy": "higher", "eval_loss": "lower", "gap": "lower", "seed": None}
    assert {name: metric["better"] for name, metric in found["metrics"].items()} == wanted
    assert {name: metric["better"] for name, metric in found["runs"][0]["metrics"].items()} == wanted


def phases_of(run: RunRecord) -> dict[str, Any]:
    found: dict[str, Any] = result_of(run)["runs"][0]["phases"]
    return found


def test_a_phase_lasts_from_its_first_rank_to_its_last(home: Path) -> None:
    run = trained(home, rates=(1.0, 1.0), bench={})
    run.phase(0, "dataload", 12, 15)
    run.phase(0, "dataload", 40, 44)
    run.phase(1, "eval", 92, 95)
    found = {name: (phase["start"], phase["end"], phase["seconds"]) for name, phase in phases_of(run).items()}
    start = run.start
    assert found == {
        "prepare": (start, start + 10, 10.0),
        "dataload": (start + 12, start + 44, 32.0),
        "proc": (start + 20, start + 91, 71.0),
        "total": (start, start + 110, 110.0),
        "eval": (start + 92, start + 95, 3.0),
    }


def test_a_phase_that_never_ended_is_told(home: Path) -> None:
    run = RunRecord(home, devices=2, bench={})
    run.phase(0, "proc", 20, 90)
    run.phase(1, "proc", 20, None)
    found = phases_of(run)["proc"]
    assert (found["end"], found["seconds"], found["reason"]) == (None, None, "rank 1 never recorded its end")


def test_mllog_tells_when_the_training_was(home: Path) -> None:
    run = RunRecord(home, bench={})
    times = {"run_start": 25, "run_stop": 85}
    events = [{"time_ms": (run.start + after) * 1000, "key": key, "value": None} for key, after in times.items()]
    run.log(0, "".join(f":::MLLOG {json.dumps(event)}\n" for event in events))
    assert phases_of(run)["proc"]["seconds"] == 60.0


def test_provenance_says_what_ran_where(home: Path) -> None:
    run = trained(home, nodes=1, bench={}, parameters={"epochs": "3"})
    run.system(0, cpu={"model": "CPU"}, environment={"NCCL_DEBUG": "INFO"}, packages={"torch": "2.8.0"})
    found = result_of(run)["provenance"]
    assert found["job"]["parameters"] == {"epochs": "3"}
    assert (found["muster"], found["code"], found["user"], found["engine"]) == ("0.4.0", "c0de", "ada", "local")
    assert found["nodes"][0]["packages"] == {"torch": "2.8.0"}
    assert found["environment"] == {"NCCL_DEBUG": "INFO"}
    assert found["command"] == ["muster", "bench", "job.yaml"]
    assert found["times"] == {"created": run.start - 2, "started": run.start, "ended": run.end + 1}


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_phase_of_a_clock_that_is_wrong_is_none(home: Path, ahead: float) -> None:
    run = RunRecord(home, "job-1", bench={"targets": {"accuracy": 0.7}})
    run.timed(0, 100.0)
    run.phase(0, "proc", 20 + ahead, 90 + ahead)
    run.metric(0, "accuracy", 0.75, after=50 + ahead)
    found = result_of(run)
    proc = found["runs"][0]["phases"]["proc"]
    assert (proc["start"], proc["end"], proc["seconds"]) == (None, None, None)
    assert "clock" in proc["reason"]
    assert found["train_result_info"]["proc_start_time"] is None
    assert found["targets"][0]["reached"] and found["targets"][0]["seconds"] is None
    assert found["targets"][0]["reason"] == "nothing tells when it was reached"


def test_clocks_of_nodes_may_differ_a_little(home: Path) -> None:
    run = RunRecord(home, "job-1", bench={})
    run.timed(0, 100.0)
    run.phase(0, "proc", -5, 112)
    assert result_of(run)["runs"][0]["phases"]["proc"]["seconds"] == 117.0

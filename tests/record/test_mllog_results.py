"""A result as a log in MLPerf's style: the public package reads it, and finds nothing wrong in what it says."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from mlperf_logging.compliance_checker import mlp_compliance, mlp_parser  # type: ignore[import-untyped]
from mlperf_logging.mllog import constants  # type: ignore[import-untyped]
from records import START, RunRecord, bench_of, make

from muster.bench.formats import mllog, script_log
from muster.bench.model.result import Result
from muster.metrics.mllog import Event, parse

RULESETS = ("0.7.0", "1.0.0", "1.1.0", "2.0.0", "2.1.0", "3.0.0", "3.1.0", "4.0.0", "4.1.0", "5.0.0", "5.1.0", "6.0.0", "6.1.0")
KNOWN = {value for name, value in vars(constants).items() if name.isupper()}
PLAN = {"test_id": "20210126-ljp0IY", "model": "bert", "division": "open"}


def trained(home: Path, targets: dict[str, float] | None = None, **more: Any) -> RunRecord:
    """A run of two nodes that timed its steps and evaluated twice."""
    run = RunRecord(home, nodes=2, bench={"targets": targets or {}}, **more)
    for rank in (0, 1):
        run.timed(rank, 450.5)
        run.phase(rank, "proc", 20.0, 80.0)
        run.system(rank, devices=[{"id": 0, "name": "Ascend 910"}, {"id": 1, "name": "Ascend 910"}])
    run.metric(0, "accuracy", 0.5, after=50.0, step=1)
    run.metric(0, "accuracy", 0.75, after=90.0, step=2)
    return run


def events(run: RunRecord, plan: dict[str, Any] | None = None) -> list[Event]:
    found = [parse(line) for line in mllog.lines(Result.from_json(make(bench_of(run), [run.dir])), plan=plan)]
    assert all(event is not None for event in found)
    return [event for event in found if event is not None]


def test_the_public_parser_reads_it_without_complaint(home: Path, tmp_path: Path) -> None:
    run = trained(home)
    log = tmp_path / "result_0.txt"
    log.write_text("\n".join(mllog.lines(Result.from_json(make(bench_of(run), [run.dir])))) + "\n")
    for ruleset in RULESETS:
        lines, errors = mlp_parser.parse_file(str(log), ruleset=ruleset)
        assert (errors, len(lines)) == ([], 8)
        assert {line.key for line in lines} <= KNOWN


@pytest.mark.parametrize("ruleset", ["1.1.0", "3.1.0", "5.0.0"])  # those that have rules for this model
def test_the_public_checker_misses_only_what_nobody_told(ruleset: str, home: Path, tmp_path: Path) -> None:
    run = trained(home)
    for name, value in (("train_samples", 1000), ("eval_samples", 100), ("gradient_accumulation_steps", 1)):
        run.metric(0, name, value)
    log = tmp_path / "result_0.txt"
    log.write_text("\n".join(mllog.lines(Result.from_json(make(bench_of(run), [run.dir])), plan=PLAN)) + "\n")
    checker = mlp_compliance.make_checker("training", ruleset, quiet=False, werror=True)
    checker.check_file(str(log), f"training_{ruleset}/common.yaml")
    messages = [*checker.overwritable.values(), *checker.not_overwritable, *checker.warnings.values()]
    assert messages
    missed = ("but found 0", "Required AT_LEAST_ONE occurrence of", "failed test: 'epoch_num' in v['metadata']")
    assert [text for text in messages if not any(words in text for words in missed)] == []
    told = {event.key for event in events(run, PLAN)} - {"eval_accuracy"}  # the record of a run knows steps and no epochs
    assert not [text for text in messages for key in told if f"'{key}'" in text and " or " not in text]


def test_it_says_what_happened_when(home: Path) -> None:
    told = [(event.time_ms / 1000 - START, event.key, event.value, event.event_type) for event in events(trained(home), PLAN)]
    assert told == [
        (0.0, "submission_benchmark", "bert", "POINT_IN_TIME"),
        (0.0, "submission_division", "open", "POINT_IN_TIME"),
        (0.0, "submission_platform", "2 x (2 x Ascend 910)", "POINT_IN_TIME"),
        (0.0, "init_start", None, "INTERVAL_START"),
        (10.0, "init_stop", None, "INTERVAL_END"),
        (20.0, "run_start", None, "INTERVAL_START"),
        (50.0, "eval_accuracy", 0.5, "POINT_IN_TIME"),
        (90.0, "eval_accuracy", 0.75, "POINT_IN_TIME"),
        (90.0, "run_stop", None, "INTERVAL_END"),
    ]


def test_steps_throughput_and_status_stand_in_the_metadata(home: Path) -> None:
    metadata = [event.metadata for event in events(trained(home, {"accuracy": 0.75})) if event.metadata]
    assert metadata == [
        {"phase": "proc"},
        {"step_num": 1, "rank": 0},
        {"step_num": 2, "rank": 0},
        {"status": "success", "throughput": 901.0},
    ]


@pytest.mark.parametrize("failing", [{"targets": {"accuracy": 0.8}}, {"state": "failed", "reason": "rank 1 failed"}])
def test_a_run_that_failed_or_missed_its_target_is_aborted(failing: dict[str, Any], home: Path) -> None:
    assert events(trained(home, **failing))[-1].metadata["status"] == "aborted"


def test_only_a_plan_tells_a_division(home: Path) -> None:
    told = {event.key: event.value for event in events(trained(home))}
    assert told["submission_benchmark"] == "resnet"
    assert "submission_division" not in told


def test_without_proc_the_time_of_the_ranks_counts(home: Path) -> None:
    run = RunRecord(home, bench={})
    run.timed(0, 450.5)
    told = {event.key: event for event in events(run)}
    assert (told["run_start"].time_ms / 1000 - START, told["run_stop"].time_ms / 1000 - START) == (10.0, 110.0)
    assert told["run_start"].metadata == {"phase": "total"}
    assert "eval_accuracy" not in told


def test_an_accuracy_without_a_step_gets_none(home: Path) -> None:
    run = RunRecord(home, bench={})
    run.timed(0, 450.5)
    run.result_file(0, "accuracy.json", "0.7138142585754395")
    (told,) = [event for event in events(run) if event.key == "eval_accuracy"]
    assert (told.value, told.metadata) == (0.7138142585754395, {})


def test_numbers_under_names_of_mlperf_are_passed_on(home: Path) -> None:
    run = trained(home)
    run.log(0, Event(1000 * run.start, "global_batch_size", 512).line + "\n")
    told = {event.key: event.value for event in events(run)}
    assert repr(told["global_batch_size"]) == "512"


def test_every_repeat_has_a_log_of_its_own(home: Path) -> None:
    runs = [trained(home), trained(home, id="resnet-20260919-001000-bcde", start=START + 600)]
    result = Result.from_json(make(bench_of(*runs), [run.dir for run in runs]))
    later = [line.replace(f"{ms}", f"{ms + 600_000}") for line in mllog.lines(result) if (ms := _time(line))]
    assert list(mllog.lines(result, repeat=1)) == later


def test_lines_of_the_script_are_not_kept_in_memory(home: Path) -> None:
    run = trained(home)
    run.log(0, "".join(Event(1000 * run.start + number, "note", "x" * 60_000).line + "\n" for number in range(500)))
    result = Result.from_json(make(bench_of(run), [run.dir]))
    tracemalloc.start()
    script = script_log.read(run.dir)
    tracemalloc.reset_peak()  # of the job, which is read into a large buffer
    count = sum('"note"' in line for line in mllog.lines(result, script=script))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, most < 5 << 20) == (500, True)


def _time(line: str) -> int:
    event = parse(line)
    assert event is not None
    return int(event.time_ms)

"""Every way in which a rank can report a number, which of them counts, and what is said about one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from records import RunRecord

from muster.metrics import result_files
from muster.metrics.final import collect
from muster.metrics.observed import observe
from muster.metrics.rank_map import Rank

CLUSTER: dict[str, Any] = {"nodes": 2, "devices": 2}
FPS: dict[str, Any] = {"throughput": {"pattern": r"fps: ([^ ]+)"}}


def collected(run: RunRecord) -> dict[str, Any]:
    found = collect(run.attempt, run.job)
    assert found is not None
    return found


def throughput(run: RunRecord) -> tuple[float | None, str | None]:
    entry = collected(run)["throughput"]
    return entry["value"], entry["reason"]


def mllog(run: RunRecord, key: str, value: float, after: float = 60.0) -> str:
    """A line of MLPerf's, printed some seconds into the attempt."""
    event = {"time_ms": 1000 * (run.start + after), "key": key, "value": value, "event_type": "POINT_IN_TIME"}
    return f":::MLLOG {json.dumps(event)}\n"


def test_nothing_recorded_is_no_result(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    assert collect(run.attempt, run.job) is None


@pytest.mark.parametrize("name", ["throughput_{}.json", "throughput_rank_{}"])
def test_files_of_ranks_are_summed(home: Path, name: str) -> None:
    run = RunRecord(home, **CLUSTER)
    for rank in range(4):
        run.result_file(rank // 2, name.format(rank), f"{100 + rank}.25\n")
    assert throughput(run) == (407.0, None)


def test_files_in_outputs_count_wherever_the_agent_found_them(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    for rank in range(4):
        run.output_file(0, f"throughput_{rank}.json", 10)
    run.output_file(0, "accuracy.json", 0.75)
    found = collected(run)
    assert (found["throughput"]["value"], found["accuracy"]["value"]) == (40.0, 0.75)


def test_what_record_wrote_counts_before_everything_else(home: Path) -> None:
    run = RunRecord(home, nodes=1, devices=1, metrics=FPS)
    run.log(0, "fps: 4\n")
    assert throughput(run) == (4.0, None)
    run.log(0, "fps: 4\n" + mllog(run, "throughput", 3))
    assert throughput(run) == (3.0, None)
    run.result_file(0, "throughput_0.json", 2)
    assert throughput(run) == (2.0, None)
    run.metric(0, "throughput", 1.0)
    assert throughput(run) == (1.0, None)


def test_a_stale_file_hides_nothing(home: Path) -> None:
    run = RunRecord(home, nodes=1, devices=1, metrics=FPS)
    run.output_file(0, "throughput_0.json", 9, stale=True)
    assert throughput(run)[0] is None
    run.log(0, "fps: 4\n")
    assert throughput(run) == (4.0, None)


def test_lines_of_an_earlier_run_that_a_script_prints_are_not_its_own(home: Path) -> None:
    run = RunRecord(home, bench={})
    old = mllog(run, "throughput", 99, after=-86400)
    run.log(0, old)
    reason = "rank 0 on node 0 reported no throughput of its own: what it told is older than the run, or its clock is wrong"
    assert throughput(run) == (None, reason)
    run.log(0, old + mllog(run, "throughput", 5))
    assert throughput(run) == (5.0, None)


def test_the_step_timer_counts_before_single_steps(home: Path) -> None:
    run = RunRecord(home, nodes=1, devices=1)
    run.metric(0, "throughput", 1.0, step=1)
    run.timed(0, 50.0)
    run.metric(0, "throughput", 3.0, step=2)
    assert throughput(run) == (50.0, None)


def test_several_timers_of_a_rank_make_one_throughput(home: Path) -> None:
    """1,000 samples in 10 s, then as many in 20 s: the mean of the two rates would be 75."""
    run = RunRecord(home, bench={})
    for rate, seconds in ((100.0, 10.0), (50.0, 20.0)):
        spread = {"samples": 1000.0, "seconds": seconds}
        run.metric(0, "throughput", rate, unit="samples/s", final=True, spread=spread)
    assert throughput(run) == (2000.0 / 30.0, None)


@pytest.mark.parametrize(("take", "expected"), [("mean", 3.0), ("median", 2.0), ("last", 6.0), ("min", 1.0), ("max", 6.0)])
def test_the_job_says_which_of_several_values_counts(home: Path, take: str, expected: float) -> None:
    run = RunRecord(home, nodes=1, devices=1, metrics={"throughput": {"take": take}})
    for value in (1.0, 2.0, 6.0):
        run.metric(0, "throughput", value)
    assert throughput(run) == (expected, None)


def test_patterns_understand_thousands_progress_bars_and_several_matches_in_a_line(home: Path) -> None:
    run = RunRecord(home, nodes=1, devices=1, metrics=FPS)
    run.log(0, "fps: 1,000.5 \rfps: 1e3 fps: 999.5 \xff\nnothing here\n")
    assert throughput(run) == (1000.0, None)


@pytest.mark.parametrize("between", ["\r", "    ", "\n", "\r\n"])
def test_a_log_without_newlines_is_cut_between_numbers(home: Path, between: str) -> None:
    """Progress bars write one line for hours: no number of it may be read in half, and none be lost."""
    run = RunRecord(home, metrics={"throughput": {"pattern": r"fps:([\d.]+)"}})
    values = [1000.0 + step / 8 for step in range(20_000)]
    run.log(0, between.join(f"epoch{'.' * (step % 7)} fps:{value}" for step, value in enumerate(values)))
    reading = observe(run.attempt, run.job).value("throughput", Rank(0, 0))
    assert (reading.count, reading.value) == (len(values), sum(values) / len(values))


def test_patterns_leave_out_the_warm_up(home: Path) -> None:
    run = RunRecord(home, nodes=1, devices=1, metrics=FPS, bench={"warmup": 2})
    run.log(0, "".join(f"fps: {value} \n" for value in (1, 2, 10, 20)))
    assert throughput(run) == (15.0, None)
    run.log(0, "fps: 1 \n")
    assert throughput(run) == (None, "rank 0 on node 0 reported no throughput after the warm-up of 2 values")


def test_logs_are_read_only_where_they_can_matter(home: Path) -> None:
    plain = RunRecord(home, "plain-1", devices=1)
    line = mllog(plain, "eval_accuracy", 0.5)
    plain.log(0, line)
    assert collect(plain.attempt, plain.job) is None
    bench = RunRecord(home, "bench-1", devices=1, bench={})
    bench.log(0, line)
    assert collected(bench)["accuracy"]["value"] == 0.5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("abc", "rank 1 on node 0 reported a throughput that is not a number: 'abc' in throughput_1.json"),
        ("", "rank 1 on node 0 reported a throughput that is not a number: '' in throughput_1.json"),
        ("1_0", "rank 1 on node 0 reported a throughput that is not a number: '1_0' in throughput_1.json"),
        ("nan", "rank 1 on node 0 reported a value of throughput that is not finite: nan"),
        ("1e999", "rank 1 on node 0 reported a value of throughput that is not finite: inf"),
        ("0", "rank 1 on node 0 reported a value of throughput that is not positive: 0.0"),
        ("-3.5", "rank 1 on node 0 reported a value of throughput that is not positive: -3.5"),
    ],
)
def test_a_number_that_is_none_is_told_with_its_rank(home: Path, text: str, reason: str) -> None:
    run = RunRecord(home, devices=2)
    run.result_file(0, "throughput_0.json", 5)
    run.result_file(0, "throughput_1.json", text)
    assert throughput(run) == (None, reason)


def test_one_step_that_is_not_finite_spoils_the_mean(home: Path) -> None:
    run = RunRecord(home, devices=1, metrics={"throughput": {"pattern": "fps: (.*)", "take": "min"}})
    run.log(0, "fps: 5\nfps: nan\nfps: 6\n")
    assert throughput(run) == (None, "rank 0 on node 0 reported a value of throughput that is not finite: nan")


def test_missing_ranks_are_counted(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    run.result_file(0, "throughput_1.json", 5)
    assert throughput(run) == (None, "rank 0 on node 0 reported no throughput (and 2 more)")


def test_files_of_ranks_that_did_not_run_are_no_result(home: Path) -> None:
    run = RunRecord(home, devices=2)
    for rank in range(3):
        run.result_file(0, f"throughput_{rank}.json", 5)
    assert throughput(run) == (None, "throughput_2.json came from no rank: 2 ran")


def test_records_of_ranks_that_did_not_run_are_no_result(home: Path) -> None:
    run = RunRecord(home, devices=1)
    run.metric(0, "throughput", 5.0)
    record = Path(run.node(0).results, "record-0.jsonl")
    record.with_name("record-7.jsonl").write_bytes(record.read_bytes())
    assert throughput(run) == (None, "record-7.jsonl came from no rank: 1 ran")


def test_files_that_contradict_each_other_are_no_result(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    run.result_file(0, "accuracy.json", 0.5)
    run.result_file(1, "accuracy.json", 0.5)
    assert collected(run)["accuracy"]["value"] == 0.5
    run.result_file(1, "accuracy.json", 0.6)
    reason = "reported different values of accuracy: accuracy.json of node 0 and accuracy.json of node 1"
    assert collected(run)["accuracy"] == {"value": None, "unit": "1", "reason": f"rank 0 on node 0 {reason}"}


def test_of_several_kinds_of_accuracy_files_the_first_counts(home: Path) -> None:
    run = RunRecord(home, devices=1)
    for name, value in (("eval_acc.log", 0.3), ("accuracy_0.json", 0.2), ("accuracy_1.json", 0.9), ("accuracy.json", 0.1)):
        run.result_file(0, name, value)
    assert collected(run)["accuracy"]["value"] == 0.1
    Path(run.node(0).results, "accuracy.json").unlink()
    assert collected(run)["accuracy"]["value"] == 0.2
    Path(run.node(0).results, "accuracy_0.json").unlink()
    assert collected(run)["accuracy"]["value"] == 0.3


def test_one_rank_may_speak_for_all_and_ranks_may_not_contradict_it(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    run.metric(2, "accuracy", 0.5)
    assert collected(run)["accuracy"]["value"] == 0.5
    run.metric(3, "accuracy", 0.6)
    reason = "2 ranks reported different values; let one of them report for all"
    assert collected(run)["accuracy"]["reason"] == reason


def test_other_metrics_are_the_mean_over_ranks_or_what_one_rank_says(home: Path) -> None:
    run = RunRecord(home, **CLUSTER)
    for rank in range(4):
        run.metric(rank, "memory", float(rank), unit="GB")
    run.metric(0, "learning_rate", 0.1)
    run.metric(0, "half", 0.1)
    run.metric(1, "half", 0.1)
    found = collected(run)
    assert found["memory"] == {"value": 1.5, "unit": "GB", "reason": None}
    assert found["learning_rate"] == {"value": 0.1, "unit": "", "reason": None}
    assert found["half"]["reason"] == "rank 2 on node 1 reported no half (and 1 more)"
    assert list(found) == ["throughput", "accuracy", "half", "learning_rate", "memory"]


def test_ranks_that_report_in_different_units_have_no_sum(home: Path) -> None:
    run = RunRecord(home, devices=2)
    run.metric(0, "throughput", 1.0, unit="samples/s")
    run.metric(1, "throughput", 1.0, unit="tokens/s")
    assert throughput(run) == (None, "it was reported in different units: samples/s and tokens/s")


def test_the_job_and_its_ranks_have_to_mean_the_same_unit(home: Path) -> None:
    run = RunRecord(home, metrics={"latency": {"unit": "ms"}, "throughput": {"unit": "images/s"}})
    run.metric(0, "latency", 0.25, unit="s")
    run.metric(0, "throughput", 100.0, unit="samples/s")  # the timer's word for whatever it counts
    found = collected(run)
    assert found["latency"] == {"value": None, "unit": "ms", "reason": "it was reported in s, and the job says ms"}
    assert found["throughput"] == {"value": 100.0, "unit": "images/s", "reason": None}


def test_where_the_job_names_no_unit_that_of_the_ranks_counts(home: Path) -> None:
    run = RunRecord(home, metrics={"throughput": {}})
    run.metric(0, "throughput", 100.0, unit="tokens/s")
    assert collected(run)["throughput"] == {"value": 100.0, "unit": "tokens/s", "reason": None}


@pytest.mark.parametrize("path", ["../../../secret/throughput_0.json", "/throughput_0.json", "a/b/throughput_0.json", "..", ""])
def test_a_listing_cannot_point_elsewhere(home: Path, path: str) -> None:
    run = RunRecord(home, devices=1)
    (home / "secret").mkdir(parents=True, exist_ok=True)
    (home / "secret/throughput_0.json").write_text("5")
    listing = Path(run.node(0).results, "outputs.json")
    listing.write_text(f'[{{"output": "train_url", "path": "{path}", "stale": false}}, 7, {{}}]')
    assert collect(run.attempt, run.job) is None


@pytest.mark.parametrize("name", ["record-0.jsonl", "throughput_0.json", "accuracy.json", "ranksize.json", "outputs.json", "0"])
def test_directories_in_the_place_of_files_disturb_nobody(home: Path, name: str) -> None:
    run = RunRecord(home, devices=1)
    Path(run.node(0).results, name).mkdir()
    for path, reason in result_files.irregular(run.node(0)):
        told = json.dumps({"event": result_files.REFUSED, "path": path, "reason": reason})
        Path(run.node(0).events).write_text(f"{told}\n")
    run.result_file(0, "throughput_rank_0", 5)
    assert throughput(run)[0] == (None if name == "throughput_0.json" else 5.0)

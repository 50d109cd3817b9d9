"""What the step timer measures, on a clock that the tests set."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pythons import VERSIONS, call, python_of, recorded, said

import muster
from muster import record

RECORD = str(Path(muster.__file__).parent)  # where `import record` finds the module without any package around it
CLOCK = """
    import time
    now = 0.0
    time.perf_counter = lambda: now
    time.time = lambda: 1000.0 + now
    import record

    def pass_time(seconds):
        global now
        now += seconds
"""


def timed(folder: Path, script: str, python: str = "", **env: str) -> list[dict[str, Any]]:
    words = {"python": python} if python else {}
    said(CLOCK + script, PYTHONPATH=RECORD, MUSTER_RESULTS=str(folder), **words, **env)
    return recorded(folder)


def final(lines: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [line for line in lines if line.get("final")]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_the_warm_up_is_left_out(version: str, tmp_path: Path) -> None:
    script = """
    timer = record.timer(samples_per_step=100, warmup=2)
    pass_time(50)
    for seconds in (8, 4, 0.25, 0.25, 0.5):
        pass_time(seconds)
        timer.step()
    assert timer.done() == 300.0
    """
    lines = timed(tmp_path, script, python_of(version))
    told = final(lines)
    assert (told["name"], told["value"], told["unit"], told["t"]) == ("throughput", 300.0, "samples/s", 1063.0)
    assert told["spread"] == {
        "steps": 3,
        "warmup": 2,
        "samples": 300.0,
        "seconds": 1.0,
        "mean": 1000 / 3,
        "stdev": pytest.approx(statistics.stdev([400, 400, 200])),
        "min": 200.0,
        "max": 400.0,
        "p50": 400.0,
        "p95": 400.0,
    }


def test_the_job_file_says_how_long_the_warm_up_is(tmp_path: Path) -> None:
    script = """
    timer = record.timer(10)
    for seconds in (9, 9, 9, 1, 1):
        pass_time(seconds)
        timer.step()
    timer.done()
    """
    assert final(timed(tmp_path, script, MUSTER_WARMUP="3"))["value"] == 10.0


def test_without_a_start_the_first_step_only_starts_the_clock(tmp_path: Path) -> None:
    script = """
    timer = record.timer(10)
    pass_time(100)  # loading, compiling
    timer.step()
    pass_time(2)
    timer.step()
    timer.done()
    """
    assert final(timed(tmp_path, script))["value"] == 5.0


def test_with_a_start_the_first_step_counts(tmp_path: Path) -> None:
    script = """
    timer = record.timer(10)
    pass_time(100)
    timer.start()
    pass_time(2)
    timer.step()
    timer.done()
    """
    told = final(timed(tmp_path, script))
    assert (told["value"], told["spread"]["steps"], told["spread"]["stdev"]) == (5.0, 1, None)


def test_time_before_a_start_is_nobodys(tmp_path: Path) -> None:
    script = """
    with record.timer(10) as timer:
        for epoch in range(3):
            timer.start()
            for step in range(4):
                pass_time(1)
                timer.step()
            pass_time(1000)  # evaluation
    """
    told = final(timed(tmp_path, script))
    assert (told["value"], told["spread"]["seconds"], told["t"]) == (10.0, 12.0, 1000.0 + 2 * 1004 + 4)


def test_a_last_batch_may_be_smaller(tmp_path: Path) -> None:
    script = """
    with record.timer(10) as timer:
        pass_time(1)
        timer.step()
        pass_time(1)
        timer.step(samples=4)
    """
    told = final(timed(tmp_path, script))
    assert (told["value"], told["spread"]["min"], told["spread"]["max"]) == (7.0, 4.0, 10.0)


def test_the_phase_proc_goes_from_the_first_timed_step_to_the_last(tmp_path: Path) -> None:
    script = """
    timer = record.timer(10, warmup=1)
    for step in range(4):
        pass_time(5)
        timer.step()
    pass_time(100)
    timer.done()
    """
    edges = [(line["name"], line["edge"], line["t"]) for line in timed(tmp_path, script) if line["kind"] == "phase"]
    assert edges == [("proc", "start", 1005.0), ("proc", "end", 1020.0)]


def test_a_script_that_records_proc_itself_is_not_contradicted(tmp_path: Path) -> None:
    script = """
    with record.phase("proc"):
        with record.timer(10) as timer:
            pass_time(1)
            timer.step()
        pass_time(1)
    """
    edges = [(line["edge"], line["t"]) for line in timed(tmp_path, script) if line["kind"] == "phase"]
    assert edges == [("start", 1000.0), ("end", 1002.0)]


def test_the_throughput_is_told_now_and_then(tmp_path: Path) -> None:
    script = """
    with record.timer(1) as timer:
        for seconds in (0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.125):
            pass_time(seconds)
            timer.step()
    """
    told = [(line["step"], line["value"]) for line in timed(tmp_path, script) if line.get("final") is False]
    assert told == [(4, 4.0), (6, 2.0)]


def test_a_timer_without_a_timed_step_says_so(tmp_path: Path) -> None:
    done = call("from muster import record; t = record.timer(1, warmup=9); t.step(); t.done()", MUSTER_RESULTS=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == "muster.record: no step was timed, of 1 with a warm-up of 9, so there is no throughput\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("timer(0)", "ValueError: The value of samples_per_step is 0.0. Give a number above 0."),
        ("timer('32')", "TypeError: The value of samples_per_step is of type str. Give one number."),
        ("timer(1, warmup=-1)", "ValueError: The value of warmup is -1. Give 0 or more."),
        ("timer(1, warmup=1.5)", "TypeError: The value of warmup is 1.5. Give a whole number."),
        ("timer(1).step(samples=0)", "ValueError: The value of samples is 0.0. Give a number above 0."),
    ],
)
def test_wrong_settings_are_refused(words: str, reason: str) -> None:
    assert call(f"from muster import record; record.{words}").stderr.splitlines()[-1] == reason


def test_a_timer_that_is_done_takes_no_more_steps(tmp_path: Path) -> None:
    script = """
    with record.timer(10) as timer:
        pass_time(1)
        timer.step()
    assert timer.done() is None
    try:
        timer.step()
    except RuntimeError as error:
        assert str(error) == "This timer is done. Make another one with record.timer()."
    else:
        raise AssertionError
    """
    assert final(timed(tmp_path, script))["value"] == 10.0


@given(st.lists(st.floats(0.001, 1e6), min_size=2, max_size=40))
def test_quantiles_are_those_of_the_standard_library(rates: list[float]) -> None:
    """It has them from Python 3.8 on, too late for the Pythons of jobs."""
    ordered = sorted(rates)
    expected = statistics.quantiles(ordered, n=20, method="inclusive")
    assert record._quantile(ordered, 0.95) == pytest.approx(expected[18])
    assert record._quantile(ordered, 0.5) == pytest.approx(statistics.median(ordered))
    assert math.isclose(record._quantile(ordered, 1.0), ordered[-1])

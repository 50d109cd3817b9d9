"""`:::MLLOG` lines: Muster reads what the public package writes, and the package reads what Muster writes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.compliance_checker import mlp_parser  # type: ignore[import-untyped]
from pythons import VERSIONS, call, python_of, said

import muster
from muster.metrics.mllog import Event, Reader, parse
from muster.metrics.recorded import Edge
from muster.metrics.values import DataPoint

PUBLIC = """
    from mlperf_logging import mllog
    from mlperf_logging.mllog import constants
    log = mllog.get_mllogger()
    log.start(key=constants.INIT_START, time_ms=1000)
    log.event(key=constants.GLOBAL_BATCH_SIZE, value=256, time_ms=1500)
    log.event(key=constants.SUBMISSION_BENCHMARK, value="resnet", time_ms=1500)
    log.end(key=constants.INIT_STOP, time_ms=2000)
    log.start(key=constants.RUN_START, time_ms=3000)
    log.event(key="tracked_stats", value={"throughput": 2500.5, "lr": 0.1}, metadata={"step": 8}, time_ms=3500)
    log.event(key=constants.EVAL_ACCURACY, value=0.75, metadata={"epoch_num": 4}, time_ms=4000)
    log.end(key=constants.RUN_STOP, metadata={"status": "success"}, time_ms=5000)
"""


def read(lines: list[str]) -> Reader:
    reader = Reader()
    for line in lines:
        reader.feed(line)
    return reader


def line(**fields: Any) -> str:
    return ":::MLLOG " + json.dumps({"namespace": "", "time_ms": 1000, "event_type": "POINT_IN_TIME", **fields})


def test_what_the_public_package_writes_is_understood() -> None:
    found = read(said(PUBLIC).splitlines())
    assert found.points == [
        DataPoint(1.5, "global_batch_size", 256.0),
        DataPoint(3.5, "throughput", 2500.5, "samples/s", 8),
        DataPoint(3.5, "lr", 0.1, "", 8),
        DataPoint(4.0, "accuracy", 0.75, "1", 4),
    ]
    assert found.edges == [
        Edge(1.0, "prepare", "start"),
        Edge(2.0, "prepare", "end"),
        Edge(3.0, "proc", "start"),
        Edge(5.0, "proc", "end"),
    ]


@pytest.mark.parametrize("key", ["throughput", "samples_per_sec"])
def test_throughput_has_several_names(key: str) -> None:
    assert read([line(key=key, value=7)]).points == [DataPoint(1.0, "throughput", 7.0, "samples/s")]


@pytest.mark.parametrize("prefix", ["", "0: ", "[1,3]<stdout>: ", "2026-09-19 00:00:00 INFO :::MLLOG twice "])
def test_launchers_may_write_before_it(prefix: str) -> None:
    assert read([prefix + line(key="loss", value=0.5)]).points == [DataPoint(1.0, "loss", 0.5)]


@pytest.mark.parametrize(
    ("metadata", "step"),
    [
        ({"epoch_num": 3.0}, 3),
        ({"epoch_num": 3.5}, None),
        ({"samples_count": 512}, 512),
        ({"step_num": 2, "epoch_num": 1}, 2),
        ({"epoch_num": "one"}, None),
        (None, None),
    ],
)
def test_the_metadata_say_when_it_was(metadata: Any, step: int | None) -> None:
    assert [point.step for point in read([line(key="eval_accuracy", value=0.5, metadata=metadata)]).points] == [step]


@pytest.mark.parametrize("value", ["0.5", None, True, [1], {"a": 1}])
def test_what_is_no_number_is_no_metric(value: Any) -> None:
    assert read([line(key="opt_name", value=value)]).points == []


def test_only_points_in_time_are_metrics() -> None:
    assert read([line(key="epoch_start", value=1, event_type="INTERVAL_START")]).points == []


def test_a_number_that_is_not_finite_is_left_for_others_to_judge() -> None:
    (point,) = read([line(key="loss", value=math.nan)]).points
    assert math.isnan(point.value)


MALFORMED = [
    ":::MLLOG {",
    ":::MLLOG ",
    ":::MLLOG []",
    ':::MLLOG {"key": "loss", "value": 1}',
    ':::MLLOG {"time_ms": "soon", "key": "loss", "value": 1}',
    ':::MLLOG {"time_ms": 1, "key": 7, "value": 1}',
    line(key="loss", value=1)[:-1],
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_lines_are_skipped(text: str) -> None:
    found = read(["epoch 1", text, line(key="loss", value=1)])
    assert found.points == [DataPoint(1.0, "loss", 1.0)]
    assert parse(text) is None


KEYS = st.text(min_size=1, max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.integers(0, 2**45), KEYS, VALUES, st.dictionaries(KEYS, VALUES, max_size=3))
def test_what_was_written_is_read_again(time_ms: int, key: str, value: Any, metadata: dict[str, Any]) -> None:
    event = Event(time_ms, key, value, metadata)
    if ":::MLLOG " not in json.dumps([key, value, metadata]):
        assert parse(event.line) == event
    assert "\n" not in event.line


SCRIPT = """
    import record
    record.mllog("run_start", event="INTERVAL_START")
    record.mllog("eval_accuracy", 0.75, {"epoch_num": 4})
    record.mllog("train_samples", 50000)
    record.mllog("run_stop", metadata={"status": "success", "note": "line\\nbreak"}, event="INTERVAL_END")
"""
RULESETS = ("0.7.0", "1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "6.1.0")


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_the_public_parser_reads_what_record_prints(version: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(said(SCRIPT, python=python_of(version), PYTHONPATH=str(Path(muster.__file__).parent)))
    for ruleset in RULESETS:
        lines, errors = mlp_parser.parse_file(str(log), ruleset=ruleset)
        assert errors == []
        assert [line.key for line in lines] == ["run_start", "eval_accuracy", "train_samples", "run_stop"]
        assert [line.value["value"] for line in lines] == [None, 0.75, 50000, None]
        assert lines[1].value["metadata"] == {"file": "<string>", "lineno": 4, "epoch_num": 4}
    found = read(log.read_text().splitlines())
    told = [(point.name, point.value, point.step) for point in found.points]
    assert told == [("accuracy", 0.75, 4), ("train_samples", 50000.0, None)]
    assert [(edge.name, edge.edge) for edge in found.edges] == [("proc", "start"), ("proc", "end")]


def test_numbers_of_numpy_can_be_printed() -> None:
    script = "import numpy; from muster import record; record.mllog('a', numpy.float32(0.5), {'b': numpy.arange(2)})"
    event = parse(said(script))
    assert event is not None
    assert (event.value, event.metadata["b"]) == (0.5, [0, 1])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("'a', 1, event='END'", "'END' is no kind of MLLOG event. Use one of POINT_IN_TIME, INTERVAL_START, INTERVAL_END."),
        ("'a', object()", "An MLLOG line cannot hold a value of type object. Give numbers, texts, lists or dictionaries."),
        ("'', 1", "The key of an MLLOG event is ''. Give a text."),
        ("'a', float('nan')", "The MLLOG event a holds a number that is not finite. Give finite numbers."),
    ],
)
def test_what_cannot_be_written_is_refused(words: str, reason: str) -> None:
    done = call(f"from muster import record; record.mllog({words})")
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].partition(": ")[2] == reason

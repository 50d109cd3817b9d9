"""Whatever ranks and strangers leave in the files of results: the result is made, and is JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import RunRecord, bench_of, make

NUMBERS = st.floats() | st.integers() | st.sampled_from([10**400, -0.0, math.nan, 1e308])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    *("t", "kind", "name", "value", "unit", "step", "final", "spread", "edge", "output", "path", "stale", "modified", "error"),
    *("cpu", "mem", "devices", "ranks", "power", "energy", "interval", "missing", "machine", "environment"),
)
WORDS = st.sampled_from(["metric", "phase", "throughput", "accuracy", "start", "end", "proc", "throughput_0.json", "0", "ipmi"])
ROWS = st.dictionaries(st.sampled_from(KEYS), VALUES | WORDS, max_size=8) | VALUES
TEXTS = st.binary(max_size=30) | ROWS.map(lambda row: json.dumps(row).encode())
LINES = st.lists(TEXTS, max_size=4).map(b"\n".join)


def rows(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Lines that are right but for their numbers."""
    row = st.fixed_dictionaries({"t": NUMBERS}, optional=fields).map(lambda row: json.dumps(row).encode())
    return st.lists(row, max_size=5).map(lambda found: b"\n".join([*found, b""]))


RECORDS = rows(
    kind=st.sampled_from(["metric", "phase"]),
    name=st.sampled_from(["throughput", "accuracy", "proc", "prepare", "\ud800"]),
    edge=st.sampled_from(["start", "end"]),
    value=NUMBERS,
    step=NUMBERS,
    final=st.booleans(),
    spread=st.dictionaries(st.sampled_from(["mean", "min"]), NUMBERS),
)
LOADS = st.dictionaries(st.sampled_from(["util", "power", "energy", "cpu", "mem"]), NUMBERS)
POWERS = st.dictionaries(st.sampled_from(["ipmi", "rapl"]), NUMBERS)
SAMPLES = rows(
    cpu=NUMBERS,
    devices=st.dictionaries(st.sampled_from(["0", "1"]), LOADS),
    ranks=st.dictionaries(st.sampled_from(["0", "x", "²"]), LOADS),
    power=POWERS,
    energy=POWERS,
)
FILES = st.fixed_dictionaries(
    {
        "results/throughput_0.json": TEXTS,
        "results/accuracy.json": TEXTS,
        "results/ranksize.json": TEXTS,
        "results/outputs.json": TEXTS | st.lists(ROWS, max_size=3).map(lambda rows: json.dumps(rows).encode()),
        "results/record-0.jsonl": LINES | RECORDS,
        "logs/rank-0.log": LINES.map(lambda text: b"fps: " + text.replace(b"{", b":::MLLOG {")),
        "metrics.jsonl": (LINES | SAMPLES).map(lambda text: b'{"format": "muster-metrics/1", "machine": "m"}\n' + text) | LINES,
        "system.json": TEXTS,
    }
)


@pytest.mark.long
@settings(max_examples=60)
@given(FILES)
def test_a_result_is_made_of_anything(files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as folder:
        run = RunRecord(Path(folder), bench={"targets": {"accuracy": 0.5}}, metrics={"throughput": {"pattern": "fps: (.*)"}})
        for name, text in files.items():
            Path(run.node(0).path, name).write_bytes(text)
        found = make(bench_of(run), [run.dir])
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    value = found["metrics"]["throughput"]["value"]
    assert value is None or value > 0
    assert found["verdict"]["passed"] == (not found["verdict"]["problems"])

"""The record of a run inside a job on its way through a store: whole, cut, replayed, and written by somebody else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.channel.stream import frames
from muster.engines.modelarts.node.inside import record
from muster.engines.modelarts.node.inside.record import Record
from muster.engines.modelarts.node.journal import Log
from muster.engines.modelarts.node.stored_record import StoredRecord
from muster.records.files import Events, write_json
from muster.records.layout import RunDir
from muster.records.run_view import Cause
from muster.storage import Settings, Storage

LARGE = os.urandom(3 << 20)


class Reader:
    """The submitter's side of a record."""

    def __init__(self, folder: Path, stored: Path) -> None:
        self.attempt = RunDir(str(folder / "run")).attempt(1)
        for node in range(2):
            os.makedirs(self.attempt.node(node).logs, exist_ok=True)
        self.stored = stored
        self.shown: list[tuple[int, str]] = []
        self.noted: tuple[int, list[Log]] = (0, [])
        self.again()

    def again(self) -> None:
        """Another process goes on from what was noted."""
        self.record = StoredRecord(self.attempt, 2, str(self.stored), *self.noted, self.note, self.show)

    def note(self, taken: int, logs: list[Log]) -> None:
        self.noted = (taken, logs)

    def show(self, node: int, topic: str) -> None:
        self.shown.append((node, topic))

    def take(self) -> bool:
        with Storage(Settings(str(self.stored.parent / "home"))) as storage:
            return self.record.take(storage)

    def read(self, name: str) -> bytes:
        return Path(self.attempt.node(0).path, name).read_bytes()

    def files(self) -> set[str]:
        root = Path(self.attempt.path)
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    found = Reader(tmp_path / "there", tmp_path / "stored")
    yield found
    found.record.close()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of a run whose second node failed, in several files; a log and a large file go across their borders."""
    monkeypatch.setattr(record, "PIECE", 1 << 20)
    run = RunDir(str(tmp_path / "inside/runs/run"))
    attempt, stored = run.attempt(1), tmp_path / "stored"
    for node in range(2):
        os.makedirs(attempt.node(node).logs)
        os.makedirs(attempt.node(node).results)
    os.makedirs(attempt.meet)
    for node in range(2):
        write_json(attempt.node(node).topic("up"), {"processes": 1})
    log = Path(attempt.node(0).log("rank-0"))
    log.write_text("first\n")
    writer = Record(run, 1, 2, str(stored))
    writer.write()
    writer._flush()
    with log.open("a") as file:
        file.write("second\n")
    Path(attempt.node(0).results, "large.bin").write_bytes(LARGE)
    write_json(attempt.node(1).topic("failed"), {"kind": "exit", "node": 1})
    events = Events(run.events)
    events.add("failure", attempt=1, node=1, kind="exit")
    events.close()
    write_json(attempt.stop, {"cause": "failure", "reason": "rank-1 failed", "grace": 1.0})
    write_json(attempt.node(0).exit, {"node": 0})
    writer.finish("")
    return stored


def test_a_record_comes_over_whole(reader: Reader, written: Path) -> None:
    assert len(list(written.iterdir())) > 3 and reader.take()
    end = reader.record.end
    assert end is not None and end.stop is not None
    assert (end.stop.cause, end.failures, end.lost) == (Cause.FAILURE, (1,), ())
    assert reader.read("logs/rank-0.log") == b"first\nsecond\n" and reader.read("results/large.bin") == LARGE
    assert sorted(reader.shown) == [(0, "up"), (1, "up")]  # what would end the job is held back
    assert Path(reader.attempt.node(1).topic("failed")).exists()


@pytest.mark.parametrize("cut", [0, 5, 40, 60, -1])
def test_a_record_that_is_cut_goes_on_where_it_was(reader: Reader, written: Path, cut: int) -> None:
    """Each file comes late, at first in part, and every time another process reads on."""
    there = {path.name: path.read_bytes() for path in sorted(written.iterdir())}
    for path in written.iterdir():
        path.unlink()
    for name, data in there.items():
        (written / name).write_bytes(data[:cut])
        reader.take()  # what was not noted before comes again
        assert not reader.record.over
        (written / name).write_bytes(data)
        assert reader.take()
        reader.record.close()
        if reader.record.end is None:
            reader.again()
    assert reader.record.end is not None
    assert reader.read("logs/rank-0.log") == b"first\nsecond\n" and reader.read("results/large.bin") == LARGE


def test_a_file_in_the_place_of_another_is_not_taken(reader: Reader, written: Path) -> None:
    (written / record.name(2)).write_bytes((written / record.name(1)).read_bytes())
    assert reader.take() and not reader.take()
    assert (reader.noted[0], reader.record.over) == (1, False)


def node(number: object) -> bytes:
    return frames.message("node", node=number)


def opened(name: str, **more: object) -> bytes:
    return frames.with_object(frames.OPEN, {"number": 1, "name": name, **more})


@pytest.mark.parametrize(
    "body",
    [
        node(2),
        node(-1),
        node(True),
        node("../.."),
        opened("logs/rank-0.log", offset=0),
        node(0) + opened("../../../job.json", size=4, mtime=0),
        node(0) + opened("logs/../../../x.log", offset=0),
        node(0) + opened("job.json", size=4, mtime=0),
        node(0) + opened("exit.json", size=1 << 40, mtime=0),
        node(0) + opened("logs/rank-0.log", offset=5),
        node(0) + opened("exit.json", size=1, mtime=0) + frames.with_number(frames.DATA, 1, b"{}"),
        node(0) + frames.with_number(frames.DATA, 7, b"{}"),
        node(0) + frames.with_number(frames.BEGIN, 1),
        frames.message("world", world={"nodes": [1]}),
        frames.message("world"),
        frames.message("exec", command="true"),
        frames.message("end") + node(0),
        node(0)[:-1],
        b"\0" * 100,
        frames.with_object(frames.MESSAGE, {"say": ["node"]}),
    ],
)
def test_what_may_not_be_in_a_record_ends_it(reader: Reader, body: bytes) -> None:
    before = reader.files()
    reader.stored.mkdir()
    (reader.stored / record.name(1)).write_bytes(record.packed(1, body))
    reader.take()
    assert reader.record.broken.startswith("its record cannot be read") and reader.record.over
    assert reader.noted == (0, [])
    assert {name for name in reader.files() - before if not name.endswith(".tmp")} <= {"nodes/0/logs/rank-0.log"}
    everywhere = Path(reader.attempt.path).parents[2]
    assert not [path for path in everywhere.rglob("*.json") if Path(reader.attempt.nodes) not in path.parents]


@pytest.mark.parametrize(
    "said",
    [
        {"stop": "now", "failures": [5, "0", None], "lost": [[0], [9, "x"], "y"], "cut": 7, "reason": ["a"]},
        {"stop": {"cause": 5, "grace": "long"}, "failures": {"0": 1}, "lost": 3},
        {},
    ],
)
def test_an_end_that_means_nothing_is_an_end(reader: Reader, said: dict[str, Any]) -> None:
    reader.stored.mkdir()
    (reader.stored / record.name(1)).write_bytes(record.packed(1, frames.message("end", **said)))
    assert reader.take()
    end = reader.record.end
    assert end is not None and (end.failures, end.lost) == ((), ())
    assert end.stop is None or end.stop.cause is Cause.UNKNOWN


def test_a_disk_that_is_full_makes_it_wait(reader: Reader, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Callable[..., int] = os.write

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("muster.channel.stream.mirror.os.write", full)
    with pytest.raises(OSError, match="No space left"):
        reader.take()
    monkeypatch.setattr("muster.channel.stream.mirror.os.write", whole)
    assert reader.take() and reader.record.end is not None
    assert reader.read("logs/rank-0.log") == b"first\nsecond\n"

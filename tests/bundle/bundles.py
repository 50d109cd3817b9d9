"""Bundles made of records that were written by hand, and what somebody with tar and a text editor does to them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records import RunRecord, bench_of, make

from muster.bench.bundle import write
from muster.bench.bundle.contents import MANIFEST, SIGNATURE, FileEntry
from muster.metrics.final import collect, final
from muster.records import state
from muster.records.files import write_json

RATES = (450.77798444604605, 450.38567065252664)  # of two nodes with one rank each


def measured(home: Path, id: str = "resnet-20260919-000000-abcd", **fields: Any) -> RunRecord:
    """A run of two nodes whose ranks recorded how fast they were."""
    run = RunRecord(home, id, nodes=2, **{"bench": {}, **fields})
    for rank, rate in enumerate(RATES):
        run.result_file(rank, f"throughput_{rank}.json", rate)
        run.log(rank, f"rank {rank} says hello\n")
        run.system(rank, kernel="6.1.0", cpu={"model": "a CPU", "sockets": 1, "cores": 4, "threads": 8}, memory=2**34)
        run.samples(rank, [{"t": float(second), "cpu": 37.5 + second / 7, "mem": 2**30} for second in range(0, 110, 10)])
    run.result_file(0, "accuracy.json", 0.7138142585754395)
    run.phase(0, "proc", 20.0, 100.0)
    return run


def finish(run: RunRecord, succeeded: bool = True) -> None:
    """Writes the final record of a run, as the first observer of its end does."""
    found = final(state.read(run.dir)).to_json()
    ended: dict[str, Any] = {"state": "failed", "reason": "rank 0 failed", "result": None}
    if succeeded:
        ended = {"state": "succeeded", "reason": "all ranks succeeded", "result": collect(run.attempt, run.job)}
    write_json(run.dir.final, {**found, **ended})


def bench_folder(home: Path, *runs: RunRecord, **fields: Any) -> Path:
    """What `muster bench` leaves: the bench with its result."""
    for run in runs:
        if not json.loads(Path(run.dir.final).read_text())["attempts"]:
            finish(run)
    bench = {**bench_of(*runs), **fields}
    folder = home / "benches" / str(bench["id"])
    folder.mkdir(parents=True, exist_ok=True)
    write_json(str(folder / "bench.json"), bench)
    write_json(str(folder / "result.json"), make(bench, [run.dir for run in runs]))
    return folder


def make_bundle(home: Path, target: Path, *runs: RunRecord, key: Path | None = None, **fields: Any) -> Path:
    """A bundle of these runs, or of one that is `measured`; fields go to its `bench.json`."""
    return write.write(bench_folder(home, *(runs or (measured(home),)), **fields), home, target, key)


def unpacked(archive: Path, into: Path) -> Path:
    """The folder of a bundle, unpacked."""
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    (folder,) = into.iterdir()
    return folder


def packed(folder: Path, target: Path) -> Path:
    """A folder packed again, with the tool that everybody has."""
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, folder.name)
    return target


def set_right(folder: Path) -> None:
    """Writes sums that fit, as a forger would who has read how it is done."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in (MANIFEST, SIGNATURE)]
    (folder / MANIFEST).write_bytes(write.canonical(_entry(folder, path) for path in paths))


def forged(archive: Path, scratch: Path, change: Callable[[Path], object], sums: bool = True) -> Path:
    """The bundle after somebody has changed the folder in it, by default with sums that fit."""
    folder = unpacked(archive, scratch / "forgery")
    change(folder)
    if sums:
        set_right(folder)
    return packed(folder, scratch / "forged.tar.gz")


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Changes the data of a JSON file."""
    data = json.loads(path.read_text())
    change(data)
    write_json(str(path), data)


def _entry(folder: Path, path: Path) -> FileEntry:
    content = path.read_bytes()
    name = path.relative_to(folder).as_posix()
    return FileEntry(name, len(content), hashlib.sha256(content).hexdigest())

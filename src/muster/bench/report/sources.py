"""Finds the results that a report is about: runs, benches, bundles and result files, by name or path."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from muster.bench import result, samples
from muster.bench.bundle import check
from muster.bench.errors import BundleError, ResultError
from muster.bench.model.result import FORMAT, BenchRecord, Result, Verdict
from muster.launch.names import RunNotFound
from muster.launch.run import Run
from muster.launch.run_store import RunStore
from muster.records import damage
from muster.records.files import read_json, read_object
from muster.records.layout import BenchDir, RunDir
from muster.records.run_view import RunView
from muster.records.untrusted import parse_json, plain


@dataclass(frozen=True)
class Source:
    """A result, the samples of its runs, and the directory that its page is written to, where it has one."""

    result: Result
    samples: dict[str, samples.ByNode]
    folder: Path | None = None
    doubts: list[str] = field(default_factory=list)


def find(name: str, store: RunStore) -> Source:
    """The source of a run, a bench, the `last` of them, a bundle or a result.json. Raises RunNotFound, BundleError."""
    if os.path.isfile(name):
        return _file(Path(name))
    found = store.find_measured(name)
    if isinstance(found, BenchDir):
        return _bench(found, store)
    made = result.make(result.single(found), [found], {found.id: _end(found)})
    return Source(made, _samples(made, [found]), Path(found.path))


def _bench(bench: BenchDir, store: RunStore) -> Source:
    runs = store.runs_of(bench)
    written = read_json(bench.result)
    found = _valid(written, bench.result) if written is not None else _made(bench, runs)
    return Source(found, _samples(found, runs), Path(bench.path))


def _made(bench: BenchDir, runs: Sequence[RunDir]) -> Result:
    """The result of a bench that was interrupted before it wrote one."""
    reason = damage.unreadable(bench.bench)
    try:
        record = BenchRecord.from_json(plain(read_object(bench.bench)))
    except ResultError as error:
        words = f"{bench.bench} cannot be read: {reason or error}; measure again with `muster bench`"
        raise BundleError(words) from None
    return result.make(record, runs, {run.id: _end(run) for run in runs})


def _end(run: RunDir) -> RunView:
    """How a run ended, recorded or not. Raises RunNotFound for one that has not, and Damaged."""
    view = Run(run).view
    if not view.state.ended:
        raise RunNotFound(f"{run.id} has not ended; `muster wait {run.id}` waits for it")
    damage.need(run)
    return view


def _samples(made: Result, runs: Iterable[RunDir]) -> dict[str, samples.ByNode]:
    attempts = {run.run: run.attempt for run in made.runs}
    return {run.id: samples.of_run(run, attempt) for run in runs if (attempt := attempts.get(run.id))}


def _file(path: Path) -> Source:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return _bundle(path)
    try:
        made = parse_json(path.read_bytes())
    except ValueError:
        raise BundleError(f"{path} is neither a bundle nor a result.json; name a file that `muster bench` wrote") from None
    return Source(_valid(made, str(path)), {})


def _bundle(path: Path) -> Source:
    """A bundle that verifies; one that does not is shown as failed, with the reason as its only problem."""
    verified = check.verify(path)
    if verified.result is None:
        raise BundleError(f"{path} is damaged: {verified.problems[0]}; write it again with `muster bench`")
    if verified.passed:
        return Source(verified.result, samples.of_bundle(path))
    doubt = f"{path} does not verify: {verified.problems[0]}; `muster verify {path}` lists all problems"
    doubted = replace(verified.result, verdict=Verdict(False, (doubt,)))
    return Source(doubted, samples.of_bundle(path), None, [doubt])


def _valid(data: Any, path: str) -> Result:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BundleError(f"{path} holds no result of the format {FORMAT}; `muster bench` writes such files")
    try:
        return Result.from_json(data)
    except ResultError as error:
        raise BundleError(f"{path} is damaged: {error}; write it again with `muster bench`") from None

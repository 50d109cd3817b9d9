"""What a report is about: runs, benches, bundles and result files by the names that people give."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from muster.bench import result
from muster.bench.bundle import check
from muster.bench.errors import BundleError
from muster.bench.report import samples
from muster.bench.report.formats.as_html import html
from muster.launch import api, names
from muster.launch.names import RunNotFound
from muster.records import damage
from muster.records.files import read_json, read_object
from muster.records.json_safe import plain
from muster.records.layout import BenchDir, RunDir, home, run_dir
from muster.records.untrusted import parse_json

SHOWN = 8  # names in an error
PARTS = ("id", "name", "metric", "metrics", "verdict", "runs", "power", "targets", "limits", "provenance")
NEEDED = {"id": str, "name": str, "created": int | float, "repeats": int, "runs": list}  # of a bench.json


@dataclass(frozen=True)
class Source:
    """A result, the samples of its runs, and the directory that its page belongs to, where it has one."""

    result: dict[str, Any]
    samples: dict[str, samples.ByNode]
    folder: Path | None = None
    doubts: list[str] = field(default_factory=list)


def find(name: str) -> Source:
    """The source of a run, a bench, the `last` of them, a bundle or a result.json. Raises RunNotFound, BundleError."""
    if os.path.isfile(name):
        return _file(Path(name))
    found = names.measured(name)
    return _bench(found) if isinstance(found, BenchDir) else _run(found)


def _bench(bench: BenchDir) -> Source:
    runs = [run_dir(home(), run) for run in names.listed_runs(bench)]
    made = read_json(bench.result)
    if made is None:
        record = _record(bench)
        for run in runs:
            _must_have_ended(run)
            damage.need(run)
        made = result.make(record, runs)
    return Source(_checked(made, bench.result), _samples(made, runs), Path(bench.path))


def _record(bench: BenchDir) -> dict[str, Any]:
    """The record of a measurement with what a result needs of it."""
    record = read_object(bench.bench)
    missing = [key for key, kinds in NEEDED.items() if not isinstance(record.get(key), kinds)]
    reason = damage.unreadable(bench.bench) or (f"`{missing[0]}` is missing or damaged" if missing else "")
    if reason:
        raise BundleError(f"{bench.bench} cannot be read: {reason}; measure again with `muster bench`")
    return record


def _run(run: RunDir) -> Source:
    _must_have_ended(run)
    damage.need(run)
    made = result.make(result.single(run), [run])
    return Source(made, _samples(made, [run]), Path(run.path))


def _must_have_ended(run: RunDir) -> None:
    if not api.get(run.id).ended:
        raise RunNotFound(f"{run.id} has not ended; `muster wait {run.id}` waits for it")


def _samples(made: dict[str, Any], runs: Iterable[RunDir]) -> dict[str, samples.ByNode]:
    attempts = {run["run"]: run.get("attempt") for run in made["runs"]}
    return {run.id: samples.of_run(run, attempts[run.id]) for run in runs if attempts.get(run.id)}


def _file(path: Path) -> Source:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return _bundle(path)
    try:
        made = parse_json(path.read_bytes())
    except ValueError:
        raise BundleError(f"{path} is neither a bundle nor a result.json; name a file that `muster bench` wrote") from None
    return Source(_shown(_checked(made, str(path)), path), {})


def _bundle(path: Path) -> Source:
    """A bundle that verifies; of another one, what it says, with a verdict that nobody can overlook."""
    verified = check.verify(path)
    made = _checked(verified.result, str(path))
    if verified.passed:
        return Source(made, samples.of_bundle(path))
    doubt = f"{path} does not verify: {verified.problems[0]}; `muster verify {path}` tells all"
    doubted = {**made, "verdict": {"passed": False, "problems": [doubt]}}
    return Source(_shown(doubted, path), samples.of_bundle(path), None, [doubt])


def _shown(made: dict[str, Any], path: Path) -> dict[str, Any]:
    """A file may hold anything; what cannot be shown is no result."""
    try:
        html([made], {})
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, TemplateError) as error:
        raise BundleError(f"{path} is damaged: {type(error).__name__} {error}; write it again with `muster bench`") from None
    return made


def _checked(made: Any, path: str) -> dict[str, Any]:
    """A result has at least its parts; its numbers are not this module's business."""
    if not isinstance(made, dict) or made.get("format") != result.FORMAT or any(part not in made for part in PARTS):
        raise BundleError(f"{path} holds no result of the format {result.FORMAT}; `muster bench` writes such files")
    shown: dict[str, Any] = plain(made)
    return shown

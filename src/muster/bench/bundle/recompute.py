"""Computes the result of an unpacked bundle again from the raw records in it, and compares every value.

The records come from strangers: whatever is wrong with them is a problem to report, never a failure of the reader.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from muster import __version__
from muster.bench import result
from muster.bench.bundle import strict_json
from muster.bench.bundle.archive import Folder
from muster.bench.bundle.contents import NEEDED_FILES, is_document, is_lines
from muster.bench.bundle.strict_json import shown
from muster.bench.errors import ResultError
from muster.bench.model.result import BENCH_FORMAT, BenchRecord, Result
from muster.job import Job
from muster.metrics.final import collect, final
from muster.metrics.recorded import read_record
from muster.records import state
from muster.records.files import read_events, read_mapping, read_object
from muster.records.layout import RunDir
from muster.records.text import failures as failure_text
from muster.records.untrusted import number, plain

MOST_RANKS = 100_000
LARGEST = 32 << 20  # bytes of a document, which is read as a whole
# What a final record says that other files say as well.
_OF_ATTEMPTS = ("attempt", "started", "ended")
_SAID_TWICE = ("run", "phase", "name", "framework", "nodes", "ranks", "up", "engine", "user", "created", *_OF_ATTEMPTS)


def problems(folder: Folder) -> Iterator[str]:
    """All contradictions within and between the records, each as `where: what`."""
    yield from _ambiguous(folder)
    bench = document(folder.path / "bench.json")
    if bench is None:
        yield "bench.json: is missing or damaged, and without it nothing can be computed"
        return
    if bench.get("format") != BENCH_FORMAT:
        yield f"bench.json: format: {shown(bench.get('format'))} stands there, {BENCH_FORMAT} is what this Muster reads"
    if bench.get("id") != folder.id:
        yield f"bench.json: id: {shown(bench.get('id'))} stands there, the folder is called {shown(folder.id)}"
    missing = list(_missing(folder, bench.get("runs")))
    yield from missing
    if missing:
        return
    runs = [RunDir(str(folder.path / "runs" / name)) for name in bench["runs"]]
    oversized = [problem for run in runs for problem in _guarded(f"runs/{run.id}", _oversized, run)]
    yield from oversized
    if oversized:
        return
    for run in runs:
        yield from _guarded(f"runs/{run.id}", _record, run)
        yield from _guarded(f"runs/{run.id}", _timers, run)
        yield from _guarded(f"runs/{run.id}", _exits, run)
    yield from _guarded("result.json", _result, folder, bench, runs)


def document(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, or None."""
    return read_mapping(str(path), LARGEST)


def result_of(folder: Folder) -> Result | None:
    """The result of a bundle, or None where it is not valid."""
    try:
        return Result.from_json(document(folder.path / "result.json"))
    except ResultError:
        return None


def whole(path: Path) -> bytes:
    """The content of a document. Raises NotExact for one that is too large."""
    if path.stat().st_size > LARGEST:
        raise strict_json.NotExact(f"is larger than {LARGEST >> 20} MB")
    return path.read_bytes()


def _ambiguous(folder: Folder) -> Iterator[str]:
    """Files of Muster's that hold ambiguous or invalid JSON."""
    for path in sorted(folder.files):
        try:
            if is_document(path):
                strict_json.check(whole(folder.path / path))
            elif is_lines(path):
                strict_json.check_lines(folder.path / path)
        except strict_json.NotExact as error:
            yield f"{path}: {error}"


def _missing(folder: Folder, listed: Any) -> Iterator[str]:
    """Differences between the runs that the bench lists and the records in the bundle."""
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        yield "bench.json: runs: is not a list of runs"
        return
    there = {path.split("/")[1] for path in folder.files if path.startswith("runs/")}
    yield from (f"bench.json: runs: lists {shown(name)} twice" for name, count in Counter(listed).items() if count > 1)
    yield from (f"bench.json: runs: lists {shown(name)}, whose record is missing" for name in sorted({*listed} - there))
    yield from (f"runs/{name}: is not among the runs of bench.json" for name in sorted(there.difference(listed)))
    needed = ["result.json", *(f"runs/{name}/{file}" for name in sorted(there) for file in NEEDED_FILES)]
    yield from (f"{path}: is missing" for path in needed if path not in folder.files)


def _guarded(where: str, look: Callable[..., Iterable[str]], *about: Any) -> Iterator[str]:
    try:
        yield from look(*about)
    except strict_json.NotExact:
        return  # reported by _ambiguous
    except Exception as error:
        yield f"{where}: is not as Muster writes records ({type(error).__name__}: {error})"


def _oversized(run: RunDir) -> Iterator[str]:
    """Jobs of sizes that would only keep the reader busy."""
    job = Job.from_json(read_object(run.job))
    if not 0 < job.ranks <= MOST_RANKS or not 0 < job.nodes + job.ps <= MOST_RANKS:
        yield f"runs/{run.id}/job.json: {job.ranks} ranks on {job.nodes + job.ps} nodes cannot be counted"


def _record(run: RunDir) -> Iterator[str]:
    """Compares the final record of a run with its other files."""
    record = state.read(run)
    recorded = strict_json.loads(whole(Path(run.final)))
    found = final(record).to_json()
    last = record.attempts[-1] if record.attempts else None
    succeeded = recorded["state"] == "succeeded"
    follows = {key: found[key] for key in _SAID_TWICE}
    follows["result"] = None
    if last and succeeded:
        follows["result"] = found["result"] if found["state"] == "succeeded" else collect(last.dir, record.job)
    follows["attempts"] = [{key: attempt[key] for key in _OF_ATTEMPTS} for attempt in found["attempts"]]
    there = {key: recorded[key] for key in follows}
    there["attempts"] = [{key: attempt[key] for key in _OF_ATTEMPTS} for attempt in recorded["attempts"]]
    yield from _differences(f"runs/{run.id}/final.json: ", there, follows)
    yield from _differences(f"runs/{run.id}/run.json: ", {"run": record.run.get("run")}, {"run": run.id})
    if succeeded and last and last.failures:
        yield f"runs/{run.id}/final.json: says that the run succeeded, and yet {failure_text.sentence(last.failures[0])}"


def _timers(run: RunDir) -> Iterator[str]:
    """Compares every throughput that a step timer recorded with its own samples and seconds."""
    for path in sorted(Path(run.attempts).glob("*/nodes/*/results/record-*.jsonl")):
        for point in read_record(str(path))[0]:
            samples, seconds = (number((point.step_stats or {}).get(key)) for key in ("samples", "seconds"))
            if point.final and samples is not None and seconds and point.value != samples / seconds:
                where = f"runs/{run.id}/{path.relative_to(run.path)}"
                yield f"{where}: {point.value!r} stands there, {samples / seconds!r} follows from its samples and seconds"


def _exits(run: RunDir) -> Iterator[str]:
    """Compares the ends of processes in exit.json with the events that agents wrote."""
    for path in sorted(Path(run.attempts).glob("*/nodes/*/exit.json")):
        events = read_events(str(path.with_name("events.jsonl")))
        seen = {event["process"]: event for event in events if event["event"] == "exit"}
        for process in read_object(str(path))["processes"]:
            event = seen.get(process["process"], process)
            for key in (key for key in ("code", "signal") if process[key] != event[key]):
                where = f"runs/{run.id}/{path.relative_to(run.path)}: {process['process']}: {key}"
                yield f"{where}: {shown(process[key])} stands there, {shown(event[key])} in events.jsonl"


def _result(folder: Folder, bench: dict[str, Any], runs: Sequence[RunDir]) -> Iterator[str]:
    there = strict_json.loads(whole(folder.path / "result.json"))
    if not isinstance(there, dict):
        yield "result.json: is not a result"
        return
    follows = result.make(BenchRecord.from_json(plain(bench)), runs)
    found = list(_differences("", there, follows.to_json()))
    yield from found
    made_by = follows.provenance.muster
    if found and made_by != __version__:
        yield f"result.json: was made by Muster {made_by}, and this is {__version__}, which may count differently"


def _differences(where: str, there: Any, follows: Any) -> Iterator[str]:
    exactly = strict_json.loads(json.dumps(follows, allow_nan=False))
    return (where + difference for difference in strict_json.differences(there, exactly))

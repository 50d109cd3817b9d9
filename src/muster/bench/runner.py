"""Runs a benchmark: the runs of its job one after another, each on record, and the result that follows from them."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from muster.bench.aggregate import FEWEST_OLYMPIC
from muster.bench.model.result import BENCH_FORMAT, BenchRecord, Result
from muster.bench.result import make
from muster.job import Bench, Job
from muster.job.load import LoadedJob
from muster.job.source import JobError, Problem
from muster.launch.any_run import AnyRun
from muster.launch.start import submit
from muster.launch.start.prepare import Prepared
from muster.launch.start.prepare import prepare as prepare_job
from muster.records.files import read_object, write_json
from muster.records.layout import BenchDir, bench_dir, benches_dir, run_dir
from muster.records.run_view import RunView, State
from muster.records.untrusted import plain

R = TypeVar("R", bound=AnyRun)

_SINGLE_SERVER = re.compile(r"^\s*(?:export\s+)?SINGLESERVER_MODE=['\"]?True['\"]?\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Measurement:
    """A benchmark on disk."""

    dir: BenchDir

    @property
    def record(self) -> BenchRecord:
        return BenchRecord.from_json(plain(read_object(self.dir.bench)))

    @property
    def result(self) -> Result:
        """The result that follows from the records as they are now."""
        record = self.record
        return make(record, [run_dir(self.dir.home, run) for run in record.runs])

    def write(self, record: BenchRecord) -> None:
        write_json(self.dir.bench, record.to_json())


def prepare(loaded: LoadedJob, home: str, engine: str | None, say: Callable[[str], None] = lambda text: None) -> Prepared:
    """Checks a job that is to be measured; one that does not say how is measured in the plain way."""
    prepared = prepare_job(loaded, home, engine, say)
    check(prepared.job, loaded.file)
    return replace(prepared, job=replace(prepared.job, bench=prepared.job.bench or Bench()))


def check(job: Job, file: str) -> None:
    """Raises JobError for settings that no measurement of a job can satisfy."""
    found = _problems(job, job.bench or Bench())
    if impossible := [Problem(file, None, f"bench.{field}", *words) for field, *words in found]:
        raise JobError(impossible)


def _problems(job: Job, bench: Bench) -> Iterator[tuple[str, str, str]]:
    """Settings that no measurement of this job can satisfy, each as the field, what is wrong and what to do."""
    yield from _world_problems(job)
    if bench.combine == "olympic" and bench.repeats < FEWEST_OLYMPIC:
        message = f"is olympic, which leaves out the best and the worst, and there is no third of {bench.repeats}"
        yield "combine", message, f"set `bench.repeats` to {FEWEST_OLYMPIC} or more"
    counts = {"repeats": bench.repeats, "nodes": job.nodes, "ranks": job.ranks}
    for over in (over for over in bench.limits if counts[over] < 2):
        yield f"limits.{over}", f"limits how far {over} lie apart, and there is only one", "remove it, or measure more of them"


def _world_problems(job: Job) -> Iterator[tuple[str, str, str]]:
    """Contradictions between the scope and SINGLESERVER_MODE, by which a script makes a world of every node itself."""
    script, in_env = _script_making_worlds(job), job.env.get("SINGLESERVER_MODE") == "True"
    if job.servers and script and not in_env:
        message = f"is server, and {script} sets SINGLESERVER_MODE: the script makes a world of every node itself"
        yield "scope", message, 'say so with `env: {SINGLESERVER_MODE: "True"}`, or remove that line from the script'
    elif not job.servers and job.nodes > 1 and (script or in_env):
        setter = "`env`" if in_env else script
        message = f"is cluster, and {setter} sets SINGLESERVER_MODE: nodes would train alone and count as one training"
        yield "scope", message, "set `bench.scope` to server, or remove SINGLESERVER_MODE"


def _script_making_worlds(job: Job) -> str:
    """The path of the platform's start script if it sets SINGLESERVER_MODE."""
    script = Path(job.code, os.path.dirname(job.boot), "ma-pre-start.sh")
    try:
        return str(script) if job.compat and _SINGLE_SERVER.search(script.read_text(errors="replace")) else ""
    except OSError:
        return ""


def create_bench(
    job: Job,
    home: str,
    command: Sequence[str],
    plan: Mapping[str, Any] | None = None,
    system: Mapping[str, Any] | None = None,
) -> Measurement:
    """Creates the record of a benchmark that has no runs yet, beside the records of its runs under `home`."""
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.makedirs(benches_dir(home), 0o700, exist_ok=True)
    found = Measurement(bench_dir(home, submit.new_id(job.name)))
    os.mkdir(found.dir.path, 0o700)
    record = BenchRecord(
        format=BENCH_FORMAT,
        id=found.dir.id,
        name=job.name,
        created=time.time(),
        command=tuple(command),
        repeats=(job.bench or Bench()).repeats,
        runs=(),
        plan=plan,
        system=system,
    )
    found.write(record)
    return found


def run_repeats(measurement: Measurement, start: Callable[[], R], follow: Callable[[R], RunView]) -> Iterator[RunView]:
    """Runs the job as often as it says, or until a run does not succeed; yields how each run ended.

    `start` starts a run; `follow` shows it while it lasts, and returns how it ended.
    """
    for _ in range(measurement.record.repeats):
        run = start()
        record = measurement.record
        measurement.write(replace(record, runs=(*record.runs, run.id)))
        view = follow(run)
        run.wait()
        yield view
        if view.state is not State.SUCCEEDED:
            break


def write_result(measurement: Measurement) -> Result:
    """Ends the benchmark and writes its result."""
    measurement.write(replace(measurement.record, ended=time.time()))
    result = measurement.result
    write_json(measurement.dir.result, result.to_json())
    return result

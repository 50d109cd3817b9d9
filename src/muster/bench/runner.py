"""Carrying out a measurement: the job's runs one after another, each on the record, and the result that follows from them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from muster.bench.aggregate import FEWEST_OLYMPIC
from muster.bench.result import make
from muster.job import Bench, Job
from muster.job.load import LoadedJob
from muster.job.source import JobError, Problem
from muster.launch import api, create
from muster.launch.prepare import Prepared
from muster.launch.prepare import prepare as prepare_job
from muster.records.files import read_object, write_json
from muster.records.layout import BenchDir, bench_dir, benches_dir, home, make_home, run_dir

Follow = Callable[[api.Run], Mapping[str, Any]]
"""Shows a run while it lasts, and returns how it ended."""

_OWN = re.compile(r"^\s*(?:export\s+)?SINGLESERVER_MODE=['\"]?True['\"]?\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Measurement:
    """A measurement on disk."""

    dir: BenchDir

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = read_object(self.dir.bench)
        return found

    @property
    def result(self) -> dict[str, Any]:
        """What follows from the records as they stand now."""
        record = self.record
        return make(record, [run_dir(home(), run) for run in record["runs"]])

    def _note(self, **changes: Any) -> None:
        write_json(self.dir.bench, {**self.record, **changes})


def prepare(loaded: LoadedJob, engine: str | None, say: Callable[[str], None] = lambda text: None) -> Prepared:
    """Checks a job that is to be measured; one that does not say how is measured in the plain way."""
    prepared = prepare_job(loaded, home(), engine, say)
    job, bench = prepared.job, prepared.job.bench or Bench()
    impossible = [Problem(loaded.file, None, f"bench.{field}", *words) for field, *words in _impossible(job, bench)]
    if impossible:
        raise JobError(impossible)
    return replace(prepared, job=replace(job, bench=bench))


def _impossible(job: Job, bench: Bench) -> Iterator[tuple[str, str, str]]:
    """What no measurement of this job can hold, each as the field, what is wrong and what to do."""
    yield from _worlds(job)
    if bench.combine == "olympic" and bench.repeats < FEWEST_OLYMPIC:
        message = f"is olympic, which leaves out the best and the worst, and there is no third of {bench.repeats}"
        yield "combine", message, f"set `bench.repeats` to {FEWEST_OLYMPIC} or more"
    counts = {"repeats": bench.repeats, "nodes": job.nodes, "ranks": job.ranks}
    for over in (over for over in bench.limits if counts[over] < 2):
        yield f"limits.{over}", f"limits how far {over} lie apart, and there is only one", "remove it, or measure more of them"


def _worlds(job: Job) -> Iterator[tuple[str, str, str]]:
    """Where others are to make the worlds than the scope says: it would be both, or separate trainings counted as one."""
    script, told = _making_worlds(job), job.env.get("SINGLESERVER_MODE") == "True"
    if job.servers and script and not told:
        message = f"is server, and {script} sets SINGLESERVER_MODE: the script makes a world of every node itself"
        yield "scope", message, 'say so with `env: {SINGLESERVER_MODE: "True"}`, or remove that line from the script'
    elif not job.servers and job.nodes > 1 and (script or told):
        setter = "`env`" if told else script
        message = f"is cluster, and {setter} sets SINGLESERVER_MODE: nodes would train alone and count as one training"
        yield "scope", message, "set `bench.scope` to server, or remove SINGLESERVER_MODE"


def _making_worlds(job: Job) -> str:
    """The platform's start script that has ranks make worlds of their own, if there is one."""
    script = Path(job.code, os.path.dirname(job.boot), "ma-pre-start.sh")
    try:
        return str(script) if job.compat and _OWN.search(script.read_text(errors="replace")) else ""
    except OSError:
        return ""


def begin(
    prepared: Prepared,
    command: Sequence[str],
    plan: Mapping[str, Any] | None = None,
    system: Mapping[str, Any] | None = None,
) -> Measurement:
    """Makes the record of a measurement that has no runs yet."""
    job = prepared.job
    os.makedirs(benches_dir(make_home()), 0o700, exist_ok=True)
    found = Measurement(bench_dir(home(), create.new_id(job.name)))
    os.mkdir(found.dir.path, 0o700)
    record = {
        "format": "muster-bench/1",
        "id": found.dir.id,
        "name": job.name,
        "created": time.time(),
        "ended": None,
        "command": list(command),
        "repeats": (job.bench or Bench()).repeats,
        "runs": [],
        "plan": dict(plan) if plan is not None else None,
        "system": dict(system) if system is not None else None,
    }
    write_json(found.dir.bench, record)
    return found


def carry_out(measurement: Measurement, prepared: Prepared, follow: Follow) -> Iterator[Mapping[str, Any]]:
    """Runs the job as often as it says, or until a run does not succeed; yields how each run ended."""
    for _ in range(measurement.record["repeats"]):
        run = api.start(prepared)
        measurement._note(runs=[*measurement.record["runs"], run.id])
        view = follow(run)
        run.wait()
        yield view
        if view["state"] != "succeeded":
            break


def conclude(measurement: Measurement) -> dict[str, Any]:
    """Writes what the measurement came to."""
    measurement._note(ended=time.time())
    result = measurement.result
    write_json(measurement.dir.result, result)
    return result

"""Creating a run: everything is checked first, then its directory is made and the engine is asked to start it."""

from __future__ import annotations

import getpass
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from muster import __version__, config, engines
from muster.job import Job
from muster.job.source import JobError, Problem
from muster.launch import interpreter, snapshot, zipapp
from muster.runs.files import write_json, write_text
from muster.runs.layout import RunDir, home, make_home, run_dir


@dataclass(frozen=True)
class Prepared:
    """A run that could be started: checked, but nothing is written yet."""

    job: Job
    engine: engines.Engine
    settings: config.Config
    code: snapshot.Snapshot
    source: str  # the job file as written, for the record
    environment: dict[str, str]


def prepare(job: Job, engine: str = "local", source: str = "", say: Callable[[str], None] = lambda text: None) -> Prepared:
    """Checks everything that can be checked before a run exists; `say` hears of what takes a while."""
    chosen = engines.get(engine)
    settings = config.load(home())
    problems = [Problem("job", None, *problem) for problem in chosen.impossible(job)]
    environment = dict(os.environ)
    for name in job.secrets:
        if name not in environment and name in settings.secrets:
            environment[name] = settings.secrets[name]
        elif name not in environment:
            hint = f"export {name}, or put it into a profile of {home()}/config.toml"
            problems.append(Problem("job", None, "secrets", f"names `{name}`, which is not set", hint))
    if job.boot and not job.python:
        python = interpreter.default()
        if python is None:
            problems.append(Problem("job", None, "python", "has no default: there is no `python` on your PATH", "set it"))
        else:
            job = replace(job, python=python)
    if problems:
        raise JobError(problems)
    try:
        code = snapshot.take(job.code, home(), say)
    except (snapshot.SnapshotError, OSError) as error:
        raise JobError([Problem("job", None, "code", f"cannot be taken: {error}")]) from None
    return Prepared(job, chosen, settings, code, source, environment)


def order(prepared: Prepared, run_id: str) -> engines.Order:
    """The order that the engine gets, with the paths that will be."""
    place = home()
    code = f"{place}/code/{prepared.code.digest}"
    return engines.Order(run_id, f"{place}/runs/{run_id}", code, zipapp.path(place), prepared.settings.namespaces)


def render(prepared: Prepared) -> engines.Request:
    """What would be submitted; nothing is created."""
    return prepared.engine.render(prepared.job, order(prepared, new_id(prepared.job.name)), prepared.environment)


def start(prepared: Prepared, follower: int | None = None) -> RunDir:
    """Makes the run directory and submits. `follower` is a descriptor whose end stops the run."""
    place = make_home()
    zipapp.build(place)
    snapshot.keep(prepared.code, place)
    job = prepared.job
    if job.boot:
        job = replace(job, python=interpreter.resolve(job.python, place))
    run = _make(place, job.name)
    try:
        write_json(run.job, job.to_json())
        if prepared.source:
            write_text(run.job_file, prepared.source)
        record = {
            "run": run.id,
            "engine": prepared.engine.name,
            "handle": None,
            "user": getpass.getuser(),
            "host": os.uname().nodename,
            "created": time.time(),
            "code": prepared.code.digest,
            "muster": __version__,
        }
        write_json(run.run, record)
        os.mkdir(run.shared, 0o700)
        request = prepared.engine.render(job, order(prepared, run.id), prepared.environment)
        record["handle"] = prepared.engine.submit(request, follower)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    write_json(run.run, record)
    return run


def new_id(name: str) -> str:
    letters = "".join(random.choices("abcdefghijkmnpqrstuvwxyz", k=4))
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{letters}"


def _make(place: str, name: str) -> RunDir:
    Path(place, "runs").mkdir(mode=0o700, exist_ok=True)
    while True:
        run = run_dir(place, new_id(name))
        try:
            os.mkdir(run.path, 0o700)
            return run
        except FileExistsError:
            continue

"""The Python API: load a job, run it, and live with its runs. The command line stands on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from muster.job import Job
from muster.job.load import load_data, load_file
from muster.launch import create, names
from muster.launch.rerun import recorded_fields
from muster.launch.run import Run, start
from muster.records.layout import home, run_dir

__all__ = ["Run", "get", "list_runs", "load", "loader", "run", "start"]


def load(source: str | os.PathLike[str] | Mapping[str, Any], set: Sequence[str] = (), base: str = ".") -> Job:
    """The job that a file or a mapping describes. `set` holds `name=value` overrides. Raises JobError."""
    return loader(source, set, base)(lambda job: ())


def loader(source: str | os.PathLike[str] | Mapping[str, Any], set: Sequence[str] = (), base: str = ".") -> create.Load:
    """The same, for `create.prepare` to carry out."""
    if isinstance(set, str):
        set = [set]
    if isinstance(source, Mapping):
        return lambda check: load_data(source, set, base, check=check)
    return lambda check: load_file(source, set, check)


def run(
    job: Job | str | os.PathLike[str] | Mapping[str, Any],
    *,
    set: Sequence[str] = (),
    engine: str | None = None,
    detach: bool = False,
) -> Run:
    """Starts a run, without an `engine` on the one of config.toml. Unless detached, it is stopped when this process ends.

    Raises JobError.
    """
    if isinstance(job, Job):
        job = recorded_fields(job)  # checked again: it may have been made by hand
    return start(create.prepare(loader(job, set), engine, None if isinstance(job, Mapping) else job), detach)


def get(name: str) -> Run:
    """The run of an id, of a unique beginning of one, or the `last` one. Raises RunNotFound."""
    return Run(names.find(name))


def list_runs() -> list[Run]:
    """All runs, the newest first."""
    return [Run(run_dir(home(), run_id)) for run_id in names.run_ids()]

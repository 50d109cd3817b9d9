"""The Python API: load a job, run it, and live with its runs. The command line stands on it."""

from __future__ import annotations

from collections.abc import Sequence

from muster.job import Job
from muster.job import load as job_load
from muster.job.load import Source
from muster.launch.run import Run, start
from muster.launch.run_store import RunStore
from muster.launch.start.prepare import prepare
from muster.records.layout import home

__all__ = ["Run", "get", "list_runs", "load", "run", "start"]


def load(source: Source, set: Sequence[str] = (), base: str = ".") -> Job:
    """The job that a file or a mapping describes. `set` holds `name=value` overrides. Raises JobError."""
    return job_load.load(source, set, base).checked()


def run(job: Source, *, set: Sequence[str] = (), engine: str | None = None, detach: bool = False) -> Run:
    """Starts a run, without an `engine` on the one of config.toml. Unless detached, it is stopped when this process ends.

    Raises JobError.
    """
    return start(prepare(job_load.load(job, set), home(), engine), detach)


def get(name: str) -> Run:
    """The run of an id, of a unique beginning of one, or the `last` one. Raises RunNotFound."""
    return Run(RunStore(home()).find(name))


def list_runs() -> list[Run]:
    """All runs, the newest first."""
    return runs_in(RunStore(home()))


def runs_in(store: RunStore) -> list[Run]:
    """All runs of a store, the newest first."""
    return [Run(store.run(run_id)) for run_id in store.run_ids()]

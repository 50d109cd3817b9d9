"""The Python API: load a job, run it, and live with its runs. The command line stands on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.job import Job
from muster.job import load as job_load
from muster.job.load import Source
from muster.launch.start import submit
from muster.launch.start.prepare import Prepared, prepare
from muster.records.layout import RunDir, home, run_dir

if TYPE_CHECKING:  # a Run is imported when the first one exists: while its supervisor starts
    from muster.launch.run import Run
    from muster.launch.run_store import RunStore

__all__ = ["Run", "get", "list_runs", "load", "run", "start"]


def load(source: Source, set: Sequence[str] = (), base: str = ".") -> Job:
    """The job that a file or a mapping describes. `set` holds `name=value` overrides. Raises JobError."""
    return job_load.load(source, set, base).checked()


def run(job: Source, *, set: Sequence[str] = (), engine: str | None = None, detach: bool = False) -> Run:
    """Starts a run, without an `engine` on the one of config.toml. Unless detached, it is stopped when this process ends.

    Raises JobError.
    """
    return start(prepare(job_load.load(job, set), home(), engine), detach)


def start(prepared: Prepared, detach: bool = False) -> Run:
    """Starts a prepared run."""
    if "muster.launch.run" in sys.modules:
        from muster.launch.run import release_ended

        release_ended()
    if detach:
        return _own(submit.start(prepared))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        return _own(submit.start(prepared, reader), writer)
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)


def _own(run: RunDir, tie: int | None = None) -> Run:
    from muster.launch.run import Run

    return Run(run, own=True, tie=tie)


def get(name: str) -> Run:
    """The run of an id, of a unique beginning of one, or the `last` one. Raises RunNotFound."""
    from muster.launch.run import Run
    from muster.launch.run_store import RunStore

    return Run(RunStore(home()).find(name))


def list_runs() -> list[Run]:
    """All runs, the newest first."""
    from muster.launch.run_store import RunStore

    return runs_in(RunStore(home()))


def runs_in(store: RunStore) -> list[Run]:
    """All runs of a store, the newest first."""
    from muster.launch.run import Run

    return [Run(run_dir(store.home, run_id)) for run_id in store.run_ids()]

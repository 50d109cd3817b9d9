"""Removing what nothing uses any more: runs that ended long ago, measurements without runs, code and packed agents."""

from __future__ import annotations

import os
import time

from muster.launch import api, zipapp
from muster.launch.names import RunNotFound, bench_ids
from muster.runs.files import delete_tree, files_below, read_object
from muster.runs.layout import BenchDir, bench_dir, home, run_dir
from muster.runs.state import ENDED, recorded

YOUNG = 3600.0  # a run that is just being created may be about to use it


def ended_before(run: api.Run, limit: float) -> bool:
    """Whether a run has ended, and that before a time."""
    try:
        view = run.view
    except RunNotFound:  # somebody else removed it
        return False
    try:
        moment = view["ended"] or view["created"] or os.stat(run.dir.path).st_mtime
    except FileNotFoundError:
        return False
    return view["state"] in ENDED and moment < limit


def unused() -> int:
    """Deletes snapshots and agents that no run refers to; returns the bytes that were freed."""
    place = home()
    runs = api.list_runs()
    used = {str(read_object(run.dir.run).get("code")) for run in runs}
    agent = zipapp.path(place)
    agents = {os.path.basename(path) for path in (agent, zipapp.reference(agent))}
    busy = any(recorded(run.dir) is None for run in runs)
    freed = 0
    measured = {name for name in bench_ids() if runs_of(bench_dir(place, name))}
    # Under `runs` lies what a killed command left there half made or half deleted.
    kept_runs = {run.id for run in runs}
    known: dict[str, set[str]] = {
        "code": used, "agent": agents, "fetched": set(), "runs": kept_runs, "benches": measured
    }  # fmt: skip
    for folder, kept in known.items():
        path = f"{place}/{folder}"
        for name in os.listdir(path) if os.path.isdir(path) else []:
            full = f"{path}/{name}"
            try:
                if name in kept or (folder == "agent" and busy) or time.time() - os.stat(full).st_mtime < YOUNG:
                    continue
                freed += size_of(full)
                delete_tree(full) if os.path.isdir(full) else os.unlink(full)
            except FileNotFoundError:
                continue  # somebody else was faster
    return freed


def runs_of(bench: BenchDir) -> list[str]:
    """The runs of a measurement whose records are still there; without them nobody can check its numbers."""
    made = read_object(bench.bench).get("runs")
    listed = [run for run in made if isinstance(run, str)] if isinstance(made, list) else []
    return [run for run in listed if os.path.exists(run_dir(home(), run).run)]


def size_of(path: str) -> int:
    if not os.path.isdir(path):
        return os.lstat(path).st_size
    return sum(_size(file) for file in files_below(path))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # it is gone
        return 0

"""Removing what nothing uses any more: runs that ended long ago, measurements without runs, code and packed agents."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from muster.launch import api
from muster.launch.names import RunNotFound
from muster.launch.run_store import RunStore
from muster.launch.start import packed_agent
from muster.records.files import delete_tree, file_size, files_below, read_object
from muster.records.layout import BenchDir, bench_dir
from muster.records.state import recorded

YOUNG = 3600.0  # a run that is just being created may be about to use it


@dataclass
class Cleared:
    """The bytes that were deleted, and by path why something could not be."""

    bytes: int = 0
    left: dict[str, str] = field(default_factory=dict)

    def remove(self, path: str, delete: Callable[[], None]) -> bool:
        """Deletes one thing; false where it could not be, or another process was faster."""
        try:
            size = size_of(path)
            delete()
        except FileNotFoundError:
            return False
        except OSError as error:
            self.left[path] = f"{path} cannot be removed: {(error.strerror or str(error)).lower()}; remove it by hand"
            return False
        self.bytes += size
        return True


def ended_before(run: api.Run, limit: float) -> bool:
    """True if a run has ended, and that before a time."""
    try:
        view = run.view
    except RunNotFound:  # it was removed meanwhile
        return False
    try:
        moment = view.ended or view.created or os.lstat(run.dir.path).st_mtime
    except FileNotFoundError:
        return False
    return view.state.ended and moment < limit


def unused(store: RunStore, cleared: Cleared) -> None:
    """Deletes snapshots and agents that no run refers to, and what killed commands left half done."""
    place, runs = store.home, api.runs_in(store)
    used = {str(read_object(run.dir.run).get("code")) for run in runs}
    agent = packed_agent.path(place)
    agents = {os.path.basename(path) for path in (agent, packed_agent.reference(agent))}
    busy = any(recorded(run.dir) is None for run in runs)
    measured = {name for name in store.bench_ids() if remaining_runs(store, bench_dir(place, name))}
    # Under `runs` lies what a killed command left there half made or half deleted.
    kept_runs = {run.id for run in runs}
    known: dict[str, set[str]] = {
        "code": used, "agent": agents, "fetched": set(), "runs": kept_runs, "benches": measured
    }  # fmt: skip
    for folder, kept in known.items():
        path = f"{place}/{folder}"
        for name in os.listdir(path) if os.path.isdir(path) else []:
            full = f"{path}/{name}"
            if not (name in kept or (folder == "agent" and busy) or _is_young(full)):
                cleared.remove(full, partial(delete_tree, full))


def _is_young(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime < YOUNG
    except OSError:  # it is gone
        return True


def remaining_runs(store: RunStore, bench: BenchDir) -> list[str]:
    """The runs of a benchmark whose records are still there; without them its numbers cannot be verified."""
    return [run.id for run in store.runs_of(bench) if os.path.exists(run.run)]


def size_of(path: str) -> int:
    found = os.lstat(path)
    return sum(map(file_size, files_below(path))) if stat.S_ISDIR(found.st_mode) else found.st_size

"""Removing what nothing uses any more: code snapshots and packed agents."""

from __future__ import annotations

import os
import shutil
import time

from muster.launch import api, zipapp
from muster.runs.files import read_json
from muster.runs.layout import home

YOUNG = 3600.0  # a run that is just being created may be about to use it


def unused() -> int:
    """Deletes snapshots and agents that no run refers to; returns the bytes that were freed."""
    place = home()
    used = {(read_json(run.dir.run) or {}).get("code") for run in api.runs()}
    agents = {os.path.basename(zipapp.path(place))}
    busy = any(not run.ended for run in api.runs())
    freed = 0
    for folder, kept in (("code", used), ("agent", agents)):
        path = f"{place}/{folder}"
        for name in os.listdir(path) if os.path.isdir(path) else []:
            full = f"{path}/{name}"
            if name in kept or (folder == "agent" and busy) or time.time() - os.stat(full).st_mtime < YOUNG:
                continue
            freed += size_of(full)
            shutil.rmtree(full) if os.path.isdir(full) else os.unlink(full)
    return freed


def size_of(path: str) -> int:
    if not os.path.isdir(path):
        return os.lstat(path).st_size
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)

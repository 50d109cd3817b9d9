"""Code and local data on their way to the store, outputs and result files on their way back."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import Any

from muster.engines.modelarts.node.inside import carried
from muster.engines.modelarts.node.request import Places, options_of
from muster.job import Job
from muster.job.data import local_path
from muster.metrics.result_files import NAMES
from muster.records.files import write_json
from muster.records.layout import AttemptDir
from muster.storage import Settings, Storage, StorageError, survey

SKEW = 300.0  # seconds by which the clock of the store may be behind
MOST_FILES = 100_000  # of an output that are looked at


class Transfers:
    def __init__(self, job: Job, code: str, settings: Settings, archive: str = "") -> None:
        self._job = job
        self.code = code
        self.archive = archive  # the packed agent
        self._settings = settings

    def upload(self, places: Places) -> None:
        """Puts code and local data where the service reads them. A folder of its own for the code loses what is stale in it."""
        with Storage(self._settings) as storage:
            if places.carried:
                carried.upload(storage, self._job, self.archive, self.code, places.carried)
            elif places.code:
                storage.copy_tree(self.code, places.code, delete=bool(options_of(self._job).code_dir))
            for name, data in self._job.inputs.items():
                if path := local_path(data.url):
                    target = places.inputs[name]
                    storage.copy_tree(path, target) if os.path.isdir(path) else storage.copy_file(path, target)

    def storage(self) -> Storage:
        return Storage(self._settings)

    def withdraw(self, places: Places) -> None:
        """Deletes what only the job itself needed."""
        if places.carried:
            with Storage(self._settings) as storage:
                carried.withdraw(storage, places.carried)

    def note(self, places: Places) -> dict[str, Any]:
        """The result files that lie at the outputs before the job."""
        with Storage(self._settings) as storage:
            return survey.note(storage, NAMES, list(places.outputs.values()))

    def fetch(self, attempt: AttemptDir, places: Places, since: float) -> list[str]:
        """Brings outputs that were written since; returns what stays in the store, in words."""
        left, most = [], options_of(self._job).fetch
        with Storage(self._settings) as storage:
            for name, url in places.outputs.items():
                found, size = _new(storage, url, since - SKEW)
                kept, total = [], 0
                for path, length in found:
                    if total + length <= most:
                        kept.append(path)
                        total += length
                if kept:
                    storage.copy_tree(url, f"{attempt.node(0).path}/outputs/{name}", names=kept)
                if len(kept) < len(found):
                    left.append(f"{len(found) - len(kept)} files ({size - total} bytes) of {name} stay at {url}")
                most -= total
        return left

    def fetch_local(self, places: Places) -> str:
        """Brings outputs to the paths of this machine that the job names; returns why that failed, if so."""
        with Storage(self._settings) as storage:
            for name, data in self._job.outputs.items():
                if path := local_path(data.url):
                    url = places.outputs[name]
                    try:
                        if storage.stat(url) is not None:
                            storage.copy_tree(url, path)
                    except StorageError as error:
                        return f"{url} could not be brought to {path}: {error}"
        return ""

    def harvest(self, attempt: AttemptDir, places: Places, before: Mapping[str, Any]) -> None:
        """Copies the result files that programs have written to their outputs."""
        if not places.outputs:
            return
        kept = attempt.node(0).results + "/outputs"
        with Storage(self._settings) as storage:
            found = survey.harvest(storage, dict(before), NAMES, list(places.outputs.items()), kept)
        if found:
            os.makedirs(attempt.node(0).results, exist_ok=True)
            write_json(kept + ".json", found)


def _new(storage: Storage, url: str, since: float) -> tuple[list[tuple[str, int]], int]:
    """The files at a URL that are not older, small ones first, and their size in all."""
    if storage.stat(url) is None:
        return [], 0
    found = []
    for entry in storage.list(url, recursive=True):
        if not entry.is_dir and entry.mtime >= since:
            found.append((entry.name, entry.size))
        if len(found) >= MOST_FILES:
            break
    found.sort(key=lambda one: (one[1], one[0]))
    return found, sum(size for _, size in found)


def digests(job: Job) -> dict[str, str]:
    """The digests of the inputs that lie on this machine, by name."""
    return {name: digest(path) for name, data in job.inputs.items() if (path := local_path(data.url))}


def digest(path: str) -> str:
    """The digest of a file, or of all files below a directory."""
    total = hashlib.sha256()
    if not os.path.isdir(path):
        total.update(_content(path))
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(folder, name)
            if stat.S_ISREG(os.stat(full).st_mode):
                total.update(os.fsencode(os.path.relpath(full, path)) + b"\0" + _content(full))
    return total.hexdigest()[:32]


def _content(path: str) -> bytes:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.digest()

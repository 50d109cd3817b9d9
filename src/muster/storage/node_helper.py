"""The agent's helper processes for stores: they serve the ranks of a node, copy its inputs and outputs, and collect results.

Only these processes have the settings, keys included, in their environment.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from muster.storage import NotFound, Progress, Settings, Storage, StorageError

PAUSE = 5.0  # seconds between two lines about how far a transfer is


def main(argv: list[str]) -> int:
    word, *rest = argv
    if word == "serve":
        from muster.storage.moxing.server import serve

        serve(int(rest[0]), Settings.from_json(os.environ.pop("MUSTER_STORAGE")))
    storage = Storage(Settings.from_json(os.environ["MUSTER_STORAGE"]))
    return _copy_all(storage, rest) if word == "copy" else _collect(storage, word, rest)


def _collect(storage: Storage, word: str, rest: list[str]) -> int:
    """`note FILE NAMES URL...` before the ranks start, `harvest FILE NAMES FOLDER OUTPUT URL...` when they have ended."""
    from muster.storage.survey import harvest, note

    file, names, *words = rest
    if word == "note":
        with open(file, "w", encoding="utf-8") as opened:
            json.dump(note(storage, names, words), opened)
        return 0
    with open(file, encoding="utf-8", opener=_without_waiting) as opened:
        before = json.load(opened)
    folder, *pairs = words
    found = harvest(storage, before, names, list(zip(pairs[::2], pairs[1::2])), folder)
    with open(folder + ".json", "w", encoding="utf-8") as opened:
        json.dump(found, opened, indent=1)
    return 0


def _without_waiting(path: str, flags: int) -> int:
    """Opens without blocking: ranks may have put a FIFO there."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _copy_all(storage: Storage, rest: list[str]) -> int:
    failures: list[str] = []
    for source, target in zip(rest[::2], rest[1::2]):
        left: list[StorageError] = []
        try:
            _copy(storage, source, target, left)
        except StorageError as error:  # the others are still worth saving
            left.append(error)
        failures += [f"{source} to {target}: {error}" for error in left]
    for failure in failures[1:]:
        print(failure, file=sys.stderr)
    if failures:  # last, for the agent repeats the last line as its reason
        more = len(failures) - 1
        print("{}{}".format(failures[0], f"; {more} more are in its log" if more else ""), file=sys.stderr)
    return 1 if failures else 0


def _copy(storage: Storage, source: str, target: str, left: list[StorageError]) -> None:
    found = storage.stat(source)
    if found is None:
        raise NotFound(f"{source} does not exist")
    progress = Progress()
    with _shown(f"{source} to {target}", progress):
        if found.is_dir:
            report = storage.copy_tree(source, target, left=left, progress=progress)
        else:
            file = "{}/{}".format(target.rstrip("/"), source.rstrip("/").rpartition("/")[2])
            report = storage.copy_file(source, file, progress=progress)
    if report.files:
        files = "1 file" if report.files == 1 else f"{report.files} files"
        print(f"{source} to {target}: {files}, {report.bytes} bytes", flush=True)


@contextmanager
def _shown(what: str, progress: Progress) -> Iterator[None]:
    """Says every few seconds how far a transfer is."""
    over = threading.Event()

    def say() -> None:
        while not over.wait(PAUSE):
            total = f" of {progress.total_bytes / 1e6:,.0f}" if progress.complete else ""
            print(f"{what}: {progress.bytes / 1e6:,.0f}{total} MB, {progress.files} files so far", flush=True)

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        over.set()

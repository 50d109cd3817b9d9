"""What the agent's helper processes do with stores: serve the ranks of a node, or copy its inputs and outputs.

The settings, keys included, come in the environment of these processes alone.
"""

from __future__ import annotations

import os
import sys
from typing import List

from muster.storage import NotFound, Settings, Storage, StorageError


def main(argv: List[str]) -> int:
    word, *rest = argv
    if word == "serve":
        from muster.storage.server import main as serve

        return serve(["serve", *rest])
    storage = Storage(Settings.from_json(os.environ["MUSTER_STORAGE"]))
    failures: List[str] = []
    for source, target in zip(rest[::2], rest[1::2]):
        left: List[StorageError] = []
        try:
            _copy(storage, source, target, left)
        except StorageError as error:  # the others are still worth saving
            left.append(error)
        failures += ["%s to %s: %s" % (source, target, error) for error in left]
    for failure in failures[1:]:
        print(failure, file=sys.stderr)
    if failures:  # last, for the agent repeats the last line as its reason
        more = len(failures) - 1
        print("%s%s" % (failures[0], "; %d more are in its log" % more if more else ""), file=sys.stderr)
    return 1 if failures else 0


def _copy(storage: Storage, source: str, target: str, left: List[StorageError]) -> None:
    found = storage.stat(source)
    if found is None:
        raise NotFound("%s does not exist" % source)
    if found.is_dir:
        report = storage.copy_tree(source, target, left=left)
    else:
        report = storage.copy_file(source, "%s/%s" % (target.rstrip("/"), source.rstrip("/").rpartition("/")[2]))
    if report.files:
        files = "1 file" if report.files == 1 else "%d files" % report.files
        print("%s to %s: %s, %d bytes" % (source, target, files, report.bytes), flush=True)

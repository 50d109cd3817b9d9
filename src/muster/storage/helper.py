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
    failures = []
    for source, target in zip(rest[::2], rest[1::2]):
        try:
            _copy(storage, source, target)
        except StorageError as error:  # the others are still worth saving
            failures.append("%s to %s: %s" % (source, target, error))
    for failure in failures:  # last, for the agent repeats the last line as its reason
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def _copy(storage: Storage, source: str, target: str) -> None:
    found = storage.stat(source)
    if found is None:
        raise NotFound("%s does not exist" % source)
    if found.is_dir:
        report = storage.copy_tree(source, target)
    else:
        report = storage.copy_file(source, "%s/%s" % (target.rstrip("/"), source.rstrip("/").rpartition("/")[2]))
    if report.files:
        files = "1 file" if report.files == 1 else "%d files" % report.files
        print("%s to %s: %s, %d bytes" % (source, target, files, report.bytes), flush=True)

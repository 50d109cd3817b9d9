"""The files of a bundle: which files of a bench and of its runs it has, and which paths are valid in it."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.records.files import files_below
from muster.records.layout import RunDir
from muster.records.untrusted import is_regular

FORMAT = "muster-bundle/1"
MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
BENCH_FILES = ("bench.json", "result.json")
RUN_FILES = ("job.json", "job.yaml", "run.json", "events.jsonl", "final.json")
NEEDED_FILES = ("job.json", "run.json", "final.json")  # of every run
ATTEMPT_FILES = ("world.json",)
# Every node has a log of its agent, if an empty one: a node that did nothing else stays visible by it.
NODE_FILES = ("agent.log", "facts.json", "plan.json", "events.jsonl", "exit.json", "system.json", "metrics.jsonl")
NODE_FOLDERS = ("logs", "results")

LONGEST_PATH = 1024  # bytes
LONGEST_NAME = 255  # bytes, between two slashes
DEEPEST = 32  # folders


@dataclass(frozen=True)
class FileEntry:
    """A file of a bundle, as the manifest lists it."""

    path: str  # below the folder of the bundle
    size: int
    sha256: str


def _one_of(names: tuple[str, ...]) -> str:
    return f"({'|'.join(map(re.escape, names))})"


_PART = re.compile(
    f"{_one_of(BENCH_FILES)}|runs/[^/]+/({_one_of(RUN_FILES)}|attempts/[0-9]+/({_one_of(ATTEMPT_FILES)}"
    f"|nodes/[0-9]+/({_one_of(NODE_FILES)}|{_one_of(NODE_FOLDERS)}/.+)))"
)
_OF_RANKS = re.compile(f"/nodes/[0-9]+/{_one_of(NODE_FOLDERS)}/")


def belongs(path: str) -> bool:
    """True for a path that a bundle may have; work, code, inputs, outputs and keys are no part of it."""
    return _PART.fullmatch(path) is not None


def is_document(path: str) -> bool:
    """True for a file that Muster wrote as one JSON text."""
    return path.endswith(".json") and (not _OF_RANKS.search(path) or path.endswith("/results/outputs.json"))


def is_lines(path: str) -> bool:
    """True for a file that Muster wrote as JSON lines."""
    return path.endswith(".jsonl") and (not _OF_RANKS.search(path) or "/results/record-" in path)


def record(run: RunDir) -> Iterator[str]:
    """The paths below a run directory that a bundle has: regular files whose names can be unpacked."""
    candidates = list(RUN_FILES)
    for number in run.attempt_numbers():
        attempt = run.attempt(number)
        candidates += [f"attempts/{number}/{name}" for name in ATTEMPT_FILES]
        for index in attempt.node_indexes():
            node = f"attempts/{number}/nodes/{index}"
            candidates += [f"{node}/{name}" for name in NODE_FILES]
            below = [path for folder in NODE_FOLDERS for path in files_below(f"{run.path}/{node}/{folder}")]
            candidates += [os.path.relpath(path, run.path) for path in below]
    for path in candidates:
        if is_regular(f"{run.path}/{path}", run.path) and not fault(f"{run.id}/runs/{run.id}/{path}"):
            yield path


def fault(path: str) -> str:
    """Why a path is not valid in a bundle; empty if it is."""
    parts = path.split("/")
    if path.startswith("/"):
        return "is absolute"
    if any(part in ("", ".", "..") for part in parts):
        return "leads elsewhere"
    if not path.isprintable():
        return "holds characters that cannot be shown"
    if len(path.encode()) > LONGEST_PATH or len(parts) > DEEPEST or max(len(part.encode()) for part in parts) > LONGEST_NAME:
        return "is too long"
    return ""

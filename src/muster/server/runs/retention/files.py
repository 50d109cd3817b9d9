"""The files of a run by what they are, and deleting some of them: renamed first, never through a link that a rank left."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from muster.records.files import delete_tree, files_below, move_folder, read_mapping, temporary_name, write_json
from muster.records.layout import RunDir, is_number
from muster.records.untrusted import number
from muster.server.runs.retention.plan import Sizes, What

LOGS = ("logs", "log")  # directories of a node
OUTPUTS = ("work", "inputs", "outputs", "root", "bin", "probe")
BLOCK = 512  # bytes that `st_blocks` counts: a file with holes is as large as what it holds
MOST = 1 << 16  # bytes of the file that says what was deleted


@dataclass(frozen=True)
class Deleted:
    """That a kind of files of a run was deleted, when, and as which project wanted."""

    time: float
    project: str


def measure(run: RunDir) -> Sizes:
    """The bytes of a run on disk."""
    found = {"logs": 0, "outputs": 0, "record": 0}
    for path in files_below(run.path):
        try:
            size = os.lstat(path).st_blocks * BLOCK
        except OSError:
            continue  # it is gone
        found[kind_of(os.path.relpath(path, run.path).split(os.sep))] += size
    return Sizes(**found)


def kind_of(parts: list[str]) -> str:
    """What a file is, by its path in the directory of its run."""
    if parts[0] == "shared":
        return "outputs"
    if parts[0] != "attempts" or len(parts) < 4:
        return "record"
    if parts[2] == "root":
        return "outputs"
    inner = parts[4] if parts[2] == "nodes" and len(parts) > 5 else ""
    return "logs" if inner in LOGS else "outputs" if inner in OUTPUTS else "record"


def take_away(run: RunDir, what: What, project: str) -> str:
    """Renames the logs or outputs of a run to a directory that no reader knows; returns that, which is to be deleted."""
    noted: dict[str, Any] = read_mapping(run.retention, MOST) or {}
    write_json(run.retention, {**noted, what: {"time": time.time(), "project": project}})
    doomed = temporary_name(f"{os.path.dirname(run.path)}/.{run.id}")
    os.mkdir(doomed, 0o700)
    count = 0
    with _opened(run.path) as top:
        for parts in _folders(top, what):
            with _beneath(top, parts[:-1]) as above:
                move_folder(parts[-1], above, f"{doomed}/{count}")
            count += 1
    return doomed


def deleted(run: RunDir, what: What) -> Deleted | None:
    """Returns whether logs or outputs of a run were deleted."""
    noted = (read_mapping(run.retention, MOST) or {}).get(what)
    known: dict[str, Any] = noted if isinstance(noted, dict) else {}
    at = number(known.get("time"))
    return None if at is None else Deleted(at, str(known.get("project"))[:64])


def delete_leftovers(runs: str, oldest: float) -> None:
    """Deletes what was renamed before the server was killed."""
    for name in os.listdir(runs) if os.path.isdir(runs) else ():
        path = os.path.join(runs, name)
        if name.startswith(".") and name.endswith(".tmp") and os.lstat(path).st_mtime < oldest:
            delete_tree(path)


def _folders(top: int, what: What) -> Iterator[list[str]]:
    """The directories of a kind that a run has."""
    if what == "outputs":
        yield from _present(top, [], ("shared",))
    for attempt in _numbers(top, ["attempts"]):
        if what == "outputs":
            yield from _present(top, ["attempts", attempt], ("root",))
        nodes = ["attempts", attempt, "nodes"]
        for node in _numbers(top, nodes):
            yield from _present(top, [*nodes, node], LOGS if what == "logs" else OUTPUTS)


def _numbers(top: int, parts: list[str]) -> list[str]:
    return [name for name in _names(top, parts) if is_number(name)]


def _present(top: int, parts: list[str], names: tuple[str, ...]) -> list[list[str]]:
    there = set(_names(top, parts))
    return [[*parts, name] for name in names if name in there]


def _names(top: int, parts: list[str]) -> list[str]:
    try:
        with _beneath(top, parts) as folder:
            return os.listdir(folder)
    except OSError:
        return []  # it is not there, or something else stands in its place


@contextmanager
def _beneath(top: int, parts: list[str]) -> Iterator[int]:
    """Opens a directory of a run part by part, through no link."""
    folder = os.dup(top)
    try:
        for part in parts:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)

"""AISBench's result files: each holds one number as text and is named after a rank or a server."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any

from muster.dataclass import dataclass
from muster.job import Job
from muster.linux.proc import listed
from muster.metrics.rank_map import rank_in_run, world_size
from muster.records.files import read_events, read_json
from muster.records.layout import AttemptDir, NodeDir, is_number
from muster.records.untrusted import NotRegular, is_regular, number, open_regular

RANK_SIZE = "ranksize.json"
REFUSED = "refused"  # event of an agent that found something else than a regular file under the name of a result
RECORD = r"record-(\d{1,9})\.jsonl"  # of `muster.record`
LONGEST = 4096  # bytes that are read of a file
_RATES = r"throughput_(?:(\d{1,9})\.json|rank_(\d{1,9}))"
_ACCURACIES = r"(?:accuracy(?:_(\d{1,9}))?\.json|eval_acc\.log)"
NAMES = "|".join((_RATES, _ACCURACIES, re.escape(RANK_SIZE)))  # of all result files


@dataclass(frozen=True)
class ResultFile:
    """A result file, where the agent of a node found it."""

    node: int
    name: str
    folder: str = ""  # its directory below the output or MUSTER_RESULTS
    output: str = ""  # the output of the job to which it was written; empty for MUSTER_RESULTS
    path: str = ""  # of its copy
    below: str = ""  # the directory of its node, which links must not leave
    modified: float | None = None
    stale: bool = False
    error: str = ""  # why the agent could not copy it, if so

    def __str__(self) -> str:
        name = f"{self.folder}/{self.name}" if self.folder else self.name
        return f"{name} in {self.output}" if self.output else name

    def server(self, job: Job) -> int:
        """The node that its directory is named after, else the one whose agent found it."""
        return int(self.folder) if is_number(self.folder) and int(self.folder) < job.nodes else self.node

    def text(self) -> str:
        """The content of the file. Raises OSError, with the reason, if it is missing or no regular file of the run."""
        if self.error:
            raise OSError(errno.EINVAL, self.error)
        with open_regular(self.path, self.below) as file:
            return file.read(LONGEST).decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class Claim:
    """The metric and rank that a file is named after; the rank is -1 if it did not run."""

    metric: str
    rank: int
    order: int  # of several kinds of files, the one with the lowest counts


def find(attempt: AttemptDir) -> list[ResultFile]:
    """All result files of an attempt."""
    found: list[ResultFile] = []
    for index in attempt.node_indexes():
        found += _direct(attempt.node(index), index)
        found += _of_outputs(attempt.node(index), index)
    return found


def claim(job: Job, file: ResultFile) -> Claim | None:
    """The metric and rank of a file; None for a file that is not read."""
    rate, accuracy = re.fullmatch(_RATES, file.name), re.fullmatch(_ACCURACIES, file.name)
    server = file.server(job) if job.servers else 0
    if rate:
        number = rate.group(1) or rate.group(2)
        index = 0 if world_size(job) == 1 else int(number)  # a single rank may write the number of its card
        return Claim("throughput", rank_in_run(job, server, index), 0)
    return _accuracy(job, file.name, server, accuracy.group(1)) if accuracy else None


def _accuracy(job: Job, name: str, server: int, index: str | None) -> Claim | None:
    order = 2 if name == "eval_acc.log" else 0 if index is None else 1
    if job.own_servers and order == 0:
        return None  # all servers write it to the same place
    if job.own_servers and index is not None:
        server = int(index)
    elif not job.servers and int(index or 0) != 0:
        return None
    return Claim("accuracy", rank_in_run(job, server, 0), order)


def unseen(attempt: AttemptDir) -> Iterator[str]:
    """Outputs that the agents could not list, and why."""
    for index in attempt.node_indexes():
        for entry in _listing(attempt.node(index)):
            if entry.get("error") and not entry.get("path"):
                yield "results in {} are not known: {}".format(entry.get("output"), entry["error"])


def refused_folders(attempt: AttemptDir) -> Iterator[str]:
    """Numbered folders of results that are not read, and why."""
    for index in attempt.node_indexes():
        for path, reason in refusals(attempt.node(index)).items():
            if is_number(path):
                yield f"the results in {path} of node {index} are not read: {reason}"


def wrong_sizes(job: Job, files: list[ResultFile]) -> Iterator[str]:
    """Problems with the number of ranks that scripts wrote to ranksize.json."""
    expected = world_size(job)
    for file in files:
        if file.name != RANK_SIZE or file.stale:
            continue
        try:
            text = file.text()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield f"{file} cannot be read: {error.strerror}"
        else:
            if text != str(expected):
                yield f"{file} says {text[:40] or 'nothing'}, but the ranks were {expected}"


def is_result(path: str) -> bool:
    """True for the path of a result file, by its name."""
    return bool(re.fullmatch(NAMES, os.path.basename(path)))


def _direct(node: NodeDir, index: int) -> Iterator[ResultFile]:
    """Result files in MUSTER_RESULTS itself, which was empty when the ranks started."""
    refused = refusals(node)
    for path in entries(node.results):
        folder, _, name = path.rpartition("/")
        full = os.path.join(node.results, path)
        if is_result(name) and path not in refused and is_regular(full, node.path):
            yield ResultFile(index, name, folder, path=full, below=node.path)
    for path, reason in refused.items():
        folder, _, name = path.rpartition("/")
        if is_result(name):
            yield ResultFile(index, name, folder, error=reason)


def entries(folder: str) -> Iterator[str]:
    """The paths of what lies in a directory and in its numbered folders, below that directory."""
    for name in listed(folder):
        path = os.path.join(folder, name)
        if is_number(name) and os.path.isdir(path) and not os.path.islink(path):
            yield from (f"{name}/{inner}" for inner in listed(path))
        else:
            yield name


def irregular(node: NodeDir) -> Iterator[tuple[str, str]]:
    """Paths with the name of a result that are no regular files, and what they are instead."""
    for path in entries(node.results):
        name = os.path.basename(path)
        if is_result(name) or is_number(name) or re.fullmatch(RECORD, name):
            try:
                open_regular(os.path.join(node.results, path), node.path).close()
            except NotRegular as error:
                yield path, str(error.strerror)
            except OSError:
                continue


def refusals(node: NodeDir) -> dict[str, str]:
    """Returns what the agent of a node refused as results, by path, and why.

    The agent's events have it because a bundle cannot hold a link or a FIFO.
    """
    try:
        events = [event for event in read_events(node.events) if event["event"] == REFUSED]
    except OSError:
        return {}
    return {str(event.get("path")): str(event.get("reason")) for event in events}


def _of_outputs(node: NodeDir, index: int) -> Iterator[ResultFile]:
    """Result files that the agent copied from the outputs of the job."""
    for entry in _listing(node):
        output, listed_path = entry.get("output"), entry.get("path")
        if not isinstance(output, str) or not isinstance(listed_path, str):
            continue
        *folders, name = listed_path.split("/")
        if len(folders) > 1 or not is_result(name) or not all(map(_is_plain, (output, *folders))):
            continue
        path = os.path.join(node.results, "outputs", output, listed_path)
        modified, error, stale = number(entry.get("modified")), str(entry.get("error") or ""), entry.get("stale") is True
        yield ResultFile(index, name, "".join(folders), output, path, node.path, modified, stale, error)


def _listing(node: NodeDir) -> list[dict[str, Any]]:
    """The agent's list of result files in the outputs of the job."""
    listing = read_json(os.path.join(node.results, "outputs.json"))
    return [entry for entry in listing if isinstance(entry, dict)] if isinstance(listing, list) else []


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name

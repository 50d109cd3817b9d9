"""Collects what a node measures: samples while it runs, and copies of the result files that its programs wrote."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, Callable, Optional

from muster.agent.node.loop import Loop
from muster.agent.node.processes import Running
from muster.agent.tools import Tools
from muster.job import Job
from muster.metrics.result_files import NAMES, entries, is_result
from muster.plan import NodePlan, compat
from muster.records.files import temporary_name, write_json
from muster.records.layout import NodeDir
from muster.records.untrusted import open_regular

SHORT = 1.0  # a plain run that takes less is not worth a process that watches it
LAST_SAMPLES = 2.0  # for the sampler to write down what it has
DESCRIBED = 10.0  # for the sampler of a measurement that is over in a moment to find out what it was made on
MOST_BYTES = 1 << 20  # of a result file: it holds a number
LOOK = 0.02  # between two looks whether it has

Start = Callable[[str, list[str], Sequence[int]], Optional[Running]]


class Collector:
    """`serve` starts a helper that is given keys; `look` one that is not, and sees the processes of the node."""

    def __init__(self, tools: Tools, job: Job, folder: NodeDir, loop: Loop, serve: Start, look: Start) -> None:
        self._tools = tools
        self._job = job
        self._folder = folder
        self._before = folder.path + "/before.json"
        self._loop = loop
        self._serve = serve
        self._look = look
        self._sampler: Running | None = None
        self._noting: Running | None = None
        self._ended = False

    # -- samples

    def watch(self) -> None:
        """Starts the sampler, unless it runs or the job has none."""
        if self._job.sample and self._sampler is None and not self._ended:
            words = ["sample", self._folder.path, repr(self._job.sample)]
            if not _has_password():
                self._sampler = self._look("sampler", self._tools.own(*words), ())
                return
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with near, far:
                self._serve("power", ["power", self._folder.path], (far.fileno(),))
                self._sampler = self._look("sampler", self._tools.own(*words, str(near.fileno())), (near.fileno(),))

    def started(self, ranks: dict[int, int]) -> None:
        """The ranks run, with these process ids."""
        write_json(self._folder.pids, {str(rank): pid for rank, pid in ranks.items()})
        self.watch() if self._job.bench is not None else self._loop.later(SHORT, self.watch)

    def ended(self) -> None:
        """Has the sampler write down what it has."""
        self._ended = True
        sampler = self._sampler
        if sampler is None or sampler.ended is not None:
            return
        if self._job.bench is not None:
            self._until_described(sampler)
        os.kill(sampler.pid, signal.SIGTERM)
        self._loop.until(lambda: sampler.ended is not None, LAST_SAMPLES)

    def _until_described(self, sampler: Running) -> None:
        """Waits for the description of the node, without which its numbers mean little."""
        deadline = time.monotonic() + DESCRIBED
        while sampler.ended is None and not os.path.exists(self._folder.system) and time.monotonic() < deadline:
            if self._loop.killed:
                return
            self._loop.pause(LOOK)

    # -- result files

    def note(self) -> None:
        """Starts to look at what lies at the outputs to which programs write themselves: none of it is of this attempt."""
        urls = [url for _, url in self._sources()]
        self._noting = self._serve("note", ["storage", "note", self._before, NAMES, *urls], ())

    @property
    def noted(self) -> bool:
        return self._noting is None or self._noting.ended is not None

    def harvest(self, plan: NodePlan) -> None:
        """Copies the result files that programs left in their outputs, now that all of them have ended."""
        kept = self._folder.results + "/outputs"
        if plan.outputs or self._sources():
            _move_aside(kept, kept + ".json")
        found = list(self._own(plan, kept))
        sources = self._sources() if plan.node == 0 else []
        if sources and self._noting is not None and self._noting.code == 0:
            pairs = [word for pair in sources for word in pair]
            process = self._serve("harvest", ["storage", "harvest", self._before, NAMES, kept, *pairs], ())
            if process is not None:
                self._loop.until(lambda: process.ended is not None or self._loop.killed)
                if process.code == 0:
                    return
        reason = "what lies there could not be looked at; see the logs `note` and `harvest`"
        found += [{"output": name, "path": "", "url": url, "error": reason} for name, url in sources]
        if found:
            write_json(kept + ".json", found)

    def _sources(self) -> list[tuple[str, str]]:
        """Outputs by name and URL that programs write to without the agent."""
        return [(name, data.url) for name, data in self._job.outputs.items()] if notes(self._job) else []

    def _own(self, plan: NodePlan, kept: str) -> list[dict[str, Any]]:
        """The result files in directories that this attempt alone has written to."""
        found = []
        for output in plan.outputs:
            for path in filter(is_result, sorted(entries(output.path), key=lambda path: path.count("/"))):
                url = "{}/{}".format(output.url.rstrip("/"), path)
                entry: dict[str, Any] = {"output": output.name, "path": path, "stale": False, "url": url}
                try:
                    entry.update(_keep(output.path, path, f"{kept}/{output.name}"))
                except OSError as error:  # no regular file of the output, no permission to read it, or a full disk
                    entry["error"] = error.strerror or str(error)
                found.append(entry)
        return found


def notes(job: Job) -> bool:
    """True if programs write to the URLs of outputs themselves: the first node notes what lies there before ranks start."""
    return compat.of(job).writes_urls and bool(job.outputs)


def _has_password() -> bool:
    """True if a BMC needs a password, which the sampler does not get."""
    settings = json.loads(os.environ.get("MUSTER_POWER") or "{}")
    return any(section.get("apart") for section in (settings, *settings.get("hosts", {}).values()))


def _move_aside(*paths: str) -> None:
    """Makes room among the files of the ranks, who may call theirs as they like, and lose nothing."""
    for path in filter(os.path.lexists, paths):
        os.rename(path, temporary_name(path))


def _keep(folder: str, path: str, kept: str) -> dict[str, Any]:
    """Copies a result file; returns its size and time."""
    target = f"{kept}/{path}"
    with open_regular(f"{folder}/{path}", folder) as file:
        info = os.fstat(file.fileno())
        if info.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has {info.st_size} bytes, where a number is expected")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as copy:
            copy.write(file.read(MOST_BYTES))
    os.utime(target, (info.st_mtime, info.st_mtime))
    return {"size": info.st_size, "modified": info.st_mtime}

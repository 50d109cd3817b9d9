"""From a job file to a submission: what cannot work on a server is refused here, before anything is uploaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from muster import config
from muster.dataclass import dataclass, field, replace
from muster.job import Job
from muster.job.kinds import Item
from muster.job.load import LoadedJob, Source, load
from muster.job.source import Finding, JobError
from muster.job.written import written
from muster.launch.start.environment import unset_secrets
from muster.launch.start.prepare import Say, taken
from muster.launch.start.snapshot import Snapshot

INTO_STORE = "copy it into the store with `muster cp`, and name its URL; an absolute path is one of the nodes"
DATA = ("inputs", "outputs")
MOST_LETTERS = 64  # of a name in the API


@dataclass(frozen=True)
class Submission:
    """A job that can be sent to a server, with its code as it is here."""

    job: Job  # as this machine reads it
    text: str
    file: str  # the name under which its mistakes are reported, as it was typed
    sets: tuple[str, ...]
    code: Snapshot | None  # None for code that is in a store
    secrets: Mapping[str, str] = field(repr=False)

    def body(self, code: str | None, project: str | None, pool: str | None) -> dict[str, Any]:
        """The request, with the digest of the code."""
        known = {"job": self.text, "file": self._sent_file, "set": list(self.sets), "secrets": dict(self.secrets)}
        return {**known, "code": code, "project": project, "pool": pool}

    @property
    def _sent_file(self) -> str:
        """The name that the server gets: paths of this machine mean nothing there."""
        name = os.path.basename(self.file)
        return name if name.isprintable() and 0 < len(name) <= MOST_LETTERS else "job.yaml"

    @contextmanager
    def mistakes(self) -> Iterator[None]:
        """Mistakes that the server reports are shown under the name that was typed."""
        try:
            yield
        except JobError as error:
            sent, typed = self._sent_file, self.file
            found = [replace(problem, file=typed) if problem.file == sent else problem for problem in error.problems]
            raise JobError(found) from None


def prepare(source: Source, sets: Sequence[str], home: str, say: Say = lambda text: None) -> Submission:
    """Reads a job, its secrets and its code. Raises JobError with everything that is wrong with it."""
    loaded = load(source, sets)
    return complete(loaded, loaded.text or _text(source), sets, home, say)


def complete(read: LoadedJob, text: str, sets: Sequence[str], home: str, say: Say = lambda text: None) -> Submission:
    """The same of a job that was read already."""
    loaded = _elsewhere(read)
    secrets, missing = secrets_of(loaded.job, home)
    loaded = loaded.with_findings([*_unreachable(loaded), *missing])
    loaded.checked()
    code, wrong = (None, []) if "://" in loaded.job.code else taken(loaded.job, loaded.job.code, home, say)
    job = loaded.with_findings(wrong).checked()
    return Submission(job, text, loaded.file, tuple(sets), code, secrets)


def secrets_of(job: Job, home: str) -> tuple[dict[str, str], list[Finding]]:
    """The secrets that a job names, from the environment or the profile of this user, and those that are not set."""
    known = {**config.load(home).secrets, **os.environ}
    return {name: known[name] for name in job.secrets if name in known}, unset_secrets(job, known, home)


def _elsewhere(loaded: LoadedJob) -> LoadedJob:
    """The job with its Python as it is written: only the nodes can say whether it is there."""
    return replace(loaded, problems=tuple(problem for problem in loaded.problems if problem.field != "python"))


def _unreachable(loaded: LoadedJob) -> Iterator[Finding]:
    """Paths that mean something on this machine alone."""
    for section in DATA:
        entries = loaded.fields.get(section, Item({})).value
        for name, item in entries.items() if isinstance(entries, dict) else ():
            given = item.value.get("url", Item("")) if isinstance(item.value, dict) else item
            yield from _relative(f"{section}.{name}", given, INTO_STORE)
    yield from _relative("log_url", loaded.fields.get("log_url"), INTO_STORE)
    python = loaded.fields.get("python")
    if python is not None and "/" in str(python.value):
        yield from _relative("python", python, "name the absolute path of a Python on the nodes, or one on their PATH")
    if loaded.job.hosts is not None and loaded.job.hosts.hostfile:
        yield Finding("hosts", "name a file of this machine", "remove it: the pools of the server have their hosts")


def _relative(name: str, item: Item | None, hint: str) -> Iterator[Finding]:
    path = str(item.value) if item is not None and item.value is not None else ""
    if path and "://" not in path and not path.startswith("/"):
        yield Finding(name, f"names `{path}`, a path of this machine, which the nodes of the server do not have", hint)


def _text(source: Source) -> str:
    """A job that is no file, as JSON, which is YAML, too."""
    return json.dumps(written(source) if isinstance(source, Job) else source)

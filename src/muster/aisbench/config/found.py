"""Values of configuration files with the place where each stands, and what is to be said about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.job.source import Problem

MOST_BYTES = 1 << 20
UNREAD: Any = object()
"""The value of something that could not be read, which was told then."""


@dataclass(frozen=True)
class Found:
    """One value: None, a bool, a number, a text, a list of Found, or a dict of texts to Found."""

    value: Any
    file: str
    line: int | None = None

    def get(self, name: str) -> Found | None:
        inner = self.value.get(name) if isinstance(self.value, dict) else None
        return inner if isinstance(inner, Found) else None

    @property
    def empty(self) -> bool:
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    @property
    def place(self) -> str:
        name = os.path.basename(self.file)
        return f"{name}:{self.line}" if self.line else name

    def items(self) -> Iterator[tuple[str, Found]]:
        yield from self.value.items() if isinstance(self.value, dict) else ()


@dataclass
class Findings:
    """What a reader or a check has to say: problems block, notes and what is left behind do not."""

    here: bool = False  # the job will run on this machine: what only the cloud refuses is no problem
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)

    def wrong(self, at: Found | None, name: str, message: str, hint: str) -> None:
        self.problems.append(_problem(at, name, message, hint))

    def refused(self, at: Found | None, name: str, message: str, hint: str) -> None:
        """Something that only the cloud or a cluster would refuse: on this machine the job runs without it."""
        if self.here:
            self.note(at, name, f"{message}; a run on this machine does without")
        else:
            self.wrong(at, name, message, f"{hint}, or import with `--here` to run it on this machine")

    def note(self, at: Found | None, name: str, message: str, hint: str = "") -> None:
        self.notes.append(_problem(at, name, message, hint))

    def leave(self, at: Found | None, name: str, message: str, hint: str = "") -> None:
        """Something that the job file does not carry over."""
        self.left.append(_problem(at, name, message, hint))

    def shown_from(self, folder: str) -> None:
        """Names files relative to the directory that was read."""
        prefix = folder.rstrip("/") + "/"
        for found in (self.problems, self.notes, self.left):
            found[:] = [_renamed(problem, prefix) for problem in dict.fromkeys(found)]
            found.sort(key=lambda problem: (problem.file, problem.line or 0))


def _problem(at: Found | None, name: str, message: str, hint: str) -> Problem:
    return Problem(at.file if at else "", at.line if at else None, name, message, hint)


def _renamed(problem: Problem, prefix: str) -> Problem:
    return Problem(problem.file.removeprefix(prefix), problem.line, problem.field, problem.message, problem.hint)


def read_bytes(path: str, findings: Findings) -> bytes | None:
    """The bytes of a configuration file; None where they cannot be had, which is a problem."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        findings.wrong(Found(None, path), "", f"cannot be read: {reason}", "check the file and its permissions")
        return None
    if len(data) > MOST_BYTES:
        findings.wrong(Found(None, path), "", "is larger than 1 MB, and no configuration is", "check the file")
        return None
    return data


def read_text(path: str, findings: Findings) -> str | None:
    """The text of a configuration file, with lines that end as on this system."""
    data = read_bytes(path, findings)
    if data is None:
        return None
    for encoding in ("utf-8-sig", "gb18030"):  # the comments of many packages are Chinese, in the encoding of their authors
        try:
            return data.decode(encoding).replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
    findings.wrong(Found(None, path, line), "", "is not UTF-8 text", "save the file as UTF-8")
    return None

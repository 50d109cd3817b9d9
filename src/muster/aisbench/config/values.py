"""Values of configuration files with their file and line, and findings (problems, notes) about them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from muster.job.source import Problem

MAX_BYTES = 1 << 20
UNREAD: Any = object()
"""The value of something that could not be read, for which there is a problem already."""


@dataclass(frozen=True)
class ConfigValue:
    """One value: None, a bool, a number, a text, a list of ConfigValue, or a dict of str to ConfigValue."""

    value: Any
    file: str
    line: int | None = None

    def get(self, name: str) -> ConfigValue | None:
        inner = self.value.get(name) if isinstance(self.value, dict) else None
        return inner if isinstance(inner, ConfigValue) else None

    @property
    def empty(self) -> bool:
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    @property
    def location(self) -> str:
        name = os.path.basename(self.file)
        return f"{name}:{self.line}" if self.line else name

    def items(self) -> Iterator[tuple[str, ConfigValue]]:
        yield from self.value.items() if isinstance(self.value, dict) else ()


@dataclass
class Findings:
    """Findings of readers and checks: problems prevent the import; notes and what is left out do not."""

    here: bool = False  # the job will run on this machine: what only the cloud rejects is no problem
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)

    def problem(self, at: ConfigValue | None, name: str, message: str, hint: str) -> None:
        self.problems.append(_problem(at, name, message, hint))

    def cloud_problem(self, at: ConfigValue | None, name: str, message: str, hint: str) -> None:
        """Adds what only the cloud or a cluster would reject: a note where the job runs on this machine."""
        if self.here:
            self.note(at, name, f"{message}; a run on this machine does without")
        else:
            self.problem(at, name, message, f"{hint}, or import with `--here` to run it on this machine")

    def note(self, at: ConfigValue | None, name: str, message: str, hint: str = "") -> None:
        self.notes.append(_problem(at, name, message, hint))

    def leave_out(self, at: ConfigValue | None, name: str, message: str, hint: str = "") -> None:
        """Adds what the job file does not carry over."""
        self.left.append(_problem(at, name, message, hint))

    def make_relative(self, folder: str) -> None:
        """Makes file names relative to the directory that was read, removes duplicates, and sorts by file and line."""
        prefix = folder.rstrip("/") + "/"
        for findings in (self.problems, self.notes, self.left):
            findings[:] = [replace(problem, file=problem.file.removeprefix(prefix)) for problem in dict.fromkeys(findings)]
            findings.sort(key=lambda problem: (problem.file, problem.line or 0))


def _problem(at: ConfigValue | None, name: str, message: str, hint: str) -> Problem:
    return Problem(at.file if at else "", at.line if at else None, name, message, hint)


def read_bytes(path: str, findings: Findings) -> bytes | None:
    """Reads a configuration file; None, with a problem, where it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        findings.problem(ConfigValue(None, path), "", f"cannot be read: {reason}", "check the file and its permissions")
        return None
    if len(data) > MAX_BYTES:
        findings.problem(ConfigValue(None, path), "", "is larger than 1 MB, and no configuration is", "check the file")
        return None
    return data


def read_text(path: str, findings: Findings) -> str | None:
    """Reads the text of a configuration file, with Unix line ends."""
    data = read_bytes(path, findings)
    if data is None:
        return None
    for encoding in ("utf-8-sig", "gb18030"):  # the comments of many packages are Chinese, in the encoding of their authors
        try:
            return data.decode(encoding).replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
    findings.problem(ConfigValue(None, path, line), "", "is not UTF-8 text", "save the file as UTF-8")
    return None


def parse_json(text: str, path: str, findings: Findings) -> Any:
    """Returns the value of a JSON file; None, with a problem, where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = ConfigValue(None, path, getattr(error, "lineno", None))
        findings.problem(at, "", "is not JSON", "check the quotes, commas and brackets there, and remove comments")
        return None

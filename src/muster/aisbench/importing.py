"""From a package to a job file and a profile: everything is read and checked first, and nothing is written here."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from muster.aisbench import package
from muster.aisbench.config import access, cloud, offline
from muster.aisbench.config.access import Credentials
from muster.aisbench.config.config_json import Plan
from muster.aisbench.config.entries import Entry, render
from muster.aisbench.config.found import Findings
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.package import Choices, Package


@dataclass(frozen=True)
class Imported:
    """A package as a job: the text of its file, what it could not hold, and what is wrong."""

    text: str
    name: str
    kind: str
    code: str
    findings: Findings
    credentials: Credentials = field(repr=False)
    package: Package = field(repr=False)

    @property
    def test(self) -> Plan:
        return self.package.test


def read(folder: str, target: str, choices: Choices, here: bool = False) -> Imported:
    """Reads a package for a job file that will lie at `target`; `here` leaves out what only the cloud would refuse."""
    findings = Findings(here)
    found = package.read(folder, choices, findings)
    code = _relative(found.code, target) if found.code else ""
    fields = offline.fields if found.kind == OFFLINE else cloud.fields
    entries = fields(found, choices, code, findings) if os.path.isfile(found.file) else []
    credentials = Credentials(access.read(found, findings), access.secrets(found))
    findings.shown_from(found.folder)
    name = next((str(entry.value) for entry in entries if entry.name == "name"), "")
    text = render(_title(found), _filled(entries), [_remark(str(left)) for left in findings.left])
    return Imported(text, name, found.kind, found.code, findings, credentials, found)


def _filled(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.value != ""]


def _title(found: Package) -> list[str]:
    title = [f"Imported from the AISBench package {os.path.basename(found.folder)}. Check it with: muster run --check"]
    title.append(_remark(f"Mode: {found.mode}"))
    if found.test.test_id:
        title.append(f"Test: {found.test.shown()}")
        title.append(f"To answer it: muster bench JOB --tester {found.test.url or 'URL'} --test-id {found.test.test_id}")
    return title


def _remark(text: str) -> str:
    return " ".join(text.split())


def _relative(path: str, target: str) -> str:
    """A directory as a job file at `target` names it: relative below it, else absolute."""
    base = os.path.dirname(os.path.abspath(target))
    inside = os.path.relpath(path, base)
    return path if inside.startswith("..") else f"./{inside}" if inside != "." else "."

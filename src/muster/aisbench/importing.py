"""Makes the text of a job file and the credentials of a profile from a package; writes nothing."""

import os
from dataclasses import dataclass, field

from muster.aisbench import package
from muster.aisbench.config import access_config, modelarts_fields, offline_fields
from muster.aisbench.config.access_config import Credentials
from muster.aisbench.config.job_text import render
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.config.values import Findings
from muster.aisbench.package import Choices, Package


@dataclass(frozen=True)
class Imported:
    """A package as a job: the text of its file, findings, and credentials."""

    text: str
    name: str
    findings: Findings
    credentials: Credentials = field(repr=False)
    package: Package = field(repr=False)
    hosts: tuple[str, ...] = ()  # those that the job runs on over ssh; without any it runs on this machine

    @property
    def engine(self) -> str | None:
        """The engine that the job needs, where it needs one."""
        return "ssh" if self.hosts else None


def read(folder: str, target: str, choices: Choices, here: bool = False) -> Imported:
    """Reads and checks a package for a job file at `target`; `here` makes notes of what only the cloud would reject."""
    findings = Findings(here)
    found = package.read(folder, choices, findings)
    code = _relative(found.code, target) if found.code else ""
    make_fields = offline_fields.fields if found.kind == OFFLINE else modelarts_fields.fields
    fields = make_fields(found, choices, code, findings) if os.path.isfile(found.file) else []
    credentials = Credentials(access_config.read(found, findings), access_config.secrets(found))
    findings.make_relative(found.folder)
    values = {field.name: field.value for field in fields}
    hosts = values.get("hosts", ())
    assert isinstance(hosts, tuple)
    text = render(
        _title(found, bool(hosts)),
        [field for field in fields if field.value != ""],
        [_remark(str(left)) for left in findings.left],
    )
    return Imported(text, str(values.get("name", "")), findings, credentials, found, hosts)


def _title(found: Package, on_hosts: bool) -> list[str]:
    check = "muster run --engine ssh --check" if on_hosts else "muster run --check"
    title = [f"Imported from the AISBench package {os.path.basename(found.folder)}. Check it with: {check}"]
    title.append(_remark(f"Mode: {found.mode}"))
    if found.test.test_id:
        title.append(f"Test: {found.test.shown()}")
        title.append(f"To answer it: muster bench JOB --tester {found.test.url or 'URL'} --test-id {found.test.test_id}")
    return title


def _remark(text: str) -> str:
    return " ".join(text.split())


def _relative(path: str, target: str) -> str:
    """Returns a directory as a job file at `target` names it: relative below it, else absolute."""
    base = os.path.dirname(os.path.abspath(target))
    inside = os.path.relpath(path, base)
    return path if inside.startswith("..") else f"./{inside}" if inside != "." else "."

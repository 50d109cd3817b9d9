"""Which mode a package runs in and why: modelarts (V1 or V2), or cluster_offline, as AISBench's RUNTYPE calls them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.aisbench.config.found import Findings, Found, read_text

V1, V2, OFFLINE = "V1", "V2", "offline"
MODELARTS, CLUSTER_OFFLINE = "modelarts", "cluster_offline"
MODES = (MODELARTS, CLUSTER_OFFLINE)
# Also where only the default of a variable is given, as in `${RUNTYPE:-modelarts}`.
RUNTYPE = re.compile(r"^\s*(?:export\s+)?RUNTYPE=[\"']?(?:\$\{RUNTYPE:?[-=])?(\$\{[^}\n]*\}|[^\s;\"'}]*)", re.MULTILINE)


@dataclass(frozen=True)
class Mode:
    kind: str  # V1, V2 or offline
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"

    @property
    def name(self) -> str:
        return CLUSTER_OFFLINE if self.kind == OFFLINE else f"{MODELARTS} {self.kind}"


@dataclass(frozen=True)
class Files:
    """The files of a package that decide about its mode; empty where there is none."""

    starter: str  # benchmark.sh
    cloud: str  # modelarts_config.py
    shell: str  # config.sh


def choose(files: Files, variables: Mapping[str, Found], mode: str, version: str, findings: Findings) -> Mode:
    """The mode that somebody asks for, else the one that the package says; and which version of ModelArts that means."""
    name, reasons = (mode, [f"--mode {mode}"]) if mode else _found(files, findings)
    if name == CLUSTER_OFFLINE:
        if version:
            message = f"{version} goes with mode {MODELARTS}, and this is {name}: {reasons[0]}"
            findings.note(None, "--version", message, f"add `--mode {MODELARTS}` to use it")
        return Mode(OFFLINE, "; ".join(reasons))
    kind, told = _version(variables, version, findings)
    return Mode(kind, "; ".join([reasons[0], told, *reasons[1:]]))


def _found(files: Files, findings: Findings) -> tuple[str, list[str]]:
    """What the files say, and why; where they leave it open, what to say for the other mode."""
    said = _runtype(files.starter, findings) if files.starter else None
    if not files.cloud:
        also = f", although {said.place} sets RUNTYPE={said.value}" if said and said.value != CLUSTER_OFFLINE else ""
        return CLUSTER_OFFLINE, [f"there is no modelarts_config.py{also}"]
    if said and said.value in MODES:
        return str(said.value), [f"{said.place} sets RUNTYPE={said.value}"]
    if said:
        unsaid = f"{said.place} sets RUNTYPE={said.value}, which is no mode"
    else:
        unsaid = "benchmark.sh sets no RUNTYPE" if files.starter else "there is no benchmark.sh"
    other = [f"`--mode {CLUSTER_OFFLINE}` takes {os.path.basename(files.shell)} instead"] if files.shell else []
    return MODELARTS, [f"there is a modelarts_config.py, and {unsaid}", *other]


def _runtype(starter: str, findings: Findings) -> Found | None:
    text = read_text(starter, findings) or ""
    found = max(RUNTYPE.finditer(text), key=lambda one: one.start(), default=None)  # the last counts, as in the shell
    return Found(found.group(1), starter, text.count("\n", 0, found.start(1)) + 1) if found else None


def _version(variables: Mapping[str, Found], version: str, findings: Findings) -> tuple[str, str]:
    if version:
        return version, f"--version {version}"
    said = variables.get("MODELARTS_VERSION")
    if said is None:
        return V1, "V1 because no MODELARTS_VERSION is set"
    if said.value not in (V1, V2):
        findings.note(said, "MODELARTS_VERSION", f"is `{said.value}`, which counts as V1", "write V1 or V2")
    return V2 if said.value == V2 else V1, f"{said.place} sets MODELARTS_VERSION={said.value}"

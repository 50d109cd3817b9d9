"""The mode of a package, and why: modelarts (V1 or V2) or cluster_offline, the values of AISBench's RUNTYPE."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.aisbench.config.values import ConfigValue, Findings, read_text

V1, V2, OFFLINE = "V1", "V2", "offline"
MODELARTS, CLUSTER_OFFLINE = "modelarts", "cluster_offline"
MODES = (MODELARTS, CLUSTER_OFFLINE)
# Also a default, as in `${RUNTYPE:-modelarts}`.
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


def choose(paths: Mapping[str, str], variables: Mapping[str, ConfigValue], mode: str, version: str, findings: Findings) -> Mode:
    """Returns the mode given on the command line, else that of the package, with the version of ModelArts.

    `paths` are those of the package's files by name; empty where there is none.
    """
    name, reasons = (mode, [f"--mode {mode}"]) if mode else _from_files(paths, findings)
    if name == CLUSTER_OFFLINE:
        if version:
            message = f"{version} goes with mode {MODELARTS}, and this is {name}: {reasons[0]}"
            findings.note(None, "--version", message, f"add `--mode {MODELARTS}` to use it")
        return Mode(OFFLINE, "; ".join(reasons))
    kind, reason = _version(variables, version, findings)
    return Mode(kind, "; ".join([reasons[0], reason, *reasons[1:]]))


def _from_files(paths: Mapping[str, str], findings: Findings) -> tuple[str, list[str]]:
    """Returns the mode that the files say, and why; and where they do not say it, how to choose the other."""
    runtype = _runtype(paths["benchmark.sh"], findings) if paths["benchmark.sh"] else None
    if not paths["modelarts_config.py"]:
        also = (
            f", although {runtype.location} sets RUNTYPE={runtype.value}"
            if runtype and runtype.value != CLUSTER_OFFLINE
            else ""
        )
        return CLUSTER_OFFLINE, [f"there is no modelarts_config.py{also}"]
    if runtype and runtype.value in MODES:
        return str(runtype.value), [f"{runtype.location} sets RUNTYPE={runtype.value}"]
    if runtype:
        reason = f"{runtype.location} sets RUNTYPE={runtype.value}, which is no mode"
    else:
        reason = "benchmark.sh sets no RUNTYPE" if paths["benchmark.sh"] else "there is no benchmark.sh"
    config_sh = os.path.basename(paths["config.sh"])
    other = [f"`--mode {CLUSTER_OFFLINE}` takes {config_sh} instead"] if config_sh else []
    return MODELARTS, [f"there is a modelarts_config.py, and {reason}", *other]


def _runtype(path: str, findings: Findings) -> ConfigValue | None:
    text = read_text(path, findings) or ""
    found = max(RUNTYPE.finditer(text), key=lambda one: one.start(), default=None)  # the last counts, as in the shell
    return ConfigValue(found.group(1), path, text.count("\n", 0, found.start(1)) + 1) if found else None


def _version(variables: Mapping[str, ConfigValue], version: str, findings: Findings) -> tuple[str, str]:
    if version:
        return version, f"--version {version}"
    found = variables.get("MODELARTS_VERSION")
    if found is None:
        return V1, "V1 because no MODELARTS_VERSION is set"
    if found.value not in (V1, V2):
        findings.note(found, "MODELARTS_VERSION", f"is `{found.value}`, which counts as V1", "write V1 or V2")
    return V2 if found.value == V2 else V1, f"{found.location} sets MODELARTS_VERSION={found.value}"

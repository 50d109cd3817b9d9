"""Fields of a job that packages of every mode have: the Python that runs it, and what must be reported."""

from __future__ import annotations

import shutil

from muster.aisbench.config.entries import Entry, origin
from muster.aisbench.config.found import Findings
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.package import Package

METRICS = Entry("metrics", [Entry("throughput", []), Entry("accuracy", [])], "both must be reported")


def python(package: Package, findings: Findings) -> list[Entry]:
    """The Python of the package, where this machine has it."""
    found = package.variable("PYTHON_COMMAND")
    if found is None:
        return []
    if shutil.which(found.value) is None:
        message = f"`{found.value}` is not on this machine, and its first `python` is taken"
        findings.note(found, "PYTHON_COMMAND", message, "add `python: ...` to the job file to use another")
        return []
    return [Entry("python", found.value, origin("PYTHON_COMMAND", found))]


def measuring(package: Package, findings: Findings) -> list[Entry]:
    """What a benchmark of AISBench needs: a throughput of every rank, and an accuracy; of all servers or of each alone."""
    found = package.variable("SINGLESERVER_MODE")
    if found is None or found.value != "True" or package.kind == OFFLINE:
        if found is not None and found.value.lower() not in ("false", "0"):
            needed = "it goes with ModelArts mode" if package.kind == OFFLINE else "write exactly True to measure servers alone"
            findings.note(found, "SINGLESERVER_MODE", f"is `{found.value}`, which is off", needed)
        return [Entry("bench", [Entry("scope", "cluster", "one job over all servers")]), METRICS]
    return [Entry("bench", [Entry("scope", "server", origin("SINGLESERVER_MODE", found))]), METRICS]


def environment(package: Package) -> list[Entry]:
    """What tells a script of AISBench to make a world of every server."""
    found = package.variable("SINGLESERVER_MODE")
    if found is None or found.value != "True":
        return []
    said = f"{origin('SINGLESERVER_MODE', found)}: the script makes a world of every server"
    return [Entry("env", [Entry("SINGLESERVER_MODE", "True", said)])]

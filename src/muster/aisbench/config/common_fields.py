"""Job fields that packages of every mode have: `python`, `bench`, `metrics` and `env`."""

import shutil

from muster.aisbench.config.job_text import JobField, origin
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.config.values import Findings
from muster.aisbench.package import Package

METRICS = JobField("metrics", [JobField("throughput", []), JobField("accuracy", [])], "both must be reported")


def python(package: Package, findings: Findings) -> list[JobField]:
    """The field `python`, where this machine has the Python of the package."""
    found = package.variable("PYTHON_COMMAND")
    if found is None:
        return []
    if shutil.which(found.value) is None:
        message = f"`{found.value}` is not on this machine, and its first `python` is taken"
        findings.note(found, "PYTHON_COMMAND", message, "add `python: ...` to the job file to use another")
        return []
    return [JobField("python", found.value, origin("PYTHON_COMMAND", found))]


def measuring(package: Package, findings: Findings) -> list[JobField]:
    """The fields `bench`, over all servers or each alone, and `metrics`: throughput and accuracy."""
    found = package.variable("SINGLESERVER_MODE")
    if found is None or found.value != "True" or package.kind == OFFLINE:
        if found is not None and found.value.lower() not in ("false", "0"):
            needed = "it goes with ModelArts mode" if package.kind == OFFLINE else "write exactly True to measure servers alone"
            findings.note(found, "SINGLESERVER_MODE", f"is `{found.value}`, which is off", needed)
        return [JobField("bench", [JobField("scope", "cluster", "one job over all servers")]), METRICS]
    return [JobField("bench", [JobField("scope", "server", origin("SINGLESERVER_MODE", found))]), METRICS]


def environment(package: Package) -> list[JobField]:
    """The field `env` with SINGLESERVER_MODE, which makes AISBench's scripts train on every server alone."""
    found = package.variable("SINGLESERVER_MODE")
    if found is None or found.value != "True":
        return []
    comment = f"{origin('SINGLESERVER_MODE', found)}: the script makes a world of every server"
    return [JobField("env", [JobField("SINGLESERVER_MODE", "True", comment)])]

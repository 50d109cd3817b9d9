"""Paths of a job: `code`, `boot`, `python` and data, resolved against the directory of the job file."""

from __future__ import annotations

import os
import stat
from collections.abc import Set
from pathlib import Path

from muster.dataclass import replace
from muster.job.data import Data, url
from muster.job.kinds import Item, Wrong, nearest
from muster.job.model import Job
from muster.job.source import Finding, short


def resolve(job: Job, fields: Set[str], unread: Set[str], base: Path) -> tuple[Job, list[Finding]]:
    """The job with absolute paths, and the problems of `code`, `boot` and `python`. A URL is not looked up."""
    log_url = _absolute(job.log_url, base) if job.log_url else ""
    job = replace(job, inputs=_data(job.inputs, base), outputs=_data(job.outputs, base), log_url=log_url)
    if job.hosts and job.hosts.hostfile:
        job = replace(job, hosts=replace(job.hosts, hostfile=_absolute(job.hosts.hostfile, base)))
    findings: list[Finding] = []
    if "code" not in unread:
        job, findings = _code(job, base)
    if job.python and ("boot" in fields or "command" not in fields):
        python = os.path.expanduser(job.python)
        import shutil  # here, because it takes long to import

        if resolved := shutil.which(str(base / python) if "/" in python else python):
            job = replace(job, python=resolved)
        else:
            message = f"names `{short(python)}`, which cannot be run"
            findings.append(Finding("python", message, "give a path or a name on your PATH"))
    return job, findings


def _data(entries: dict[str, Data], base: Path) -> dict[str, Data]:
    return {name: replace(data, url=_absolute(data.url, base)) for name, data in entries.items()}


def _absolute(url: str, base: Path) -> str:
    return url if "://" in url else os.path.abspath(base / os.path.expanduser(url))


def _code(job: Job, base: Path) -> tuple[Job, list[Finding]]:
    """The job with the paths of `code` and `boot`; without the one that has a problem."""
    if "://" in job.code:
        try:
            return replace(job, code=url(Item(job.code, job.code))), []
        except Wrong as wrong:
            return replace(job, code=""), [Finding("code", wrong.message, wrong.hint)]
    code = str(base / os.path.expanduser(job.code or "."))
    if trouble := _unreadable(code):
        message = f"names `{short(code, 300)}`, which {trouble}"
        return replace(job, code=""), [Finding("code", message, "it is relative to the job file")]
    job = replace(job, code=os.path.realpath(code))
    if not job.boot:
        return job, []
    if finding := _boot_problem(job.boot, job.code):
        return replace(job, boot=""), [finding]
    return replace(job, boot=os.path.normpath(job.boot)), []


def _unreadable(path: str) -> str:
    """Why a path cannot be the code directory, if so."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return "is not a directory"
        return "" if os.access(path, os.R_OK | os.X_OK) else "you may not read"
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({str(error.strerror).lower()})"


def _boot_problem(boot: str, code: str) -> Finding | None:
    path = os.path.normpath(os.path.join(code, boot))
    if os.path.isabs(boot) or not (path == code or _inside(path, code)):
        message = f"names `{short(boot)}`, which is outside the code directory"
        return Finding("boot", message, f"it is relative to `code`, {code}")
    if os.path.isdir(path):
        return Finding("boot", f"names `{short(boot)}`, which is a directory", "name a Python file in it")
    if not os.path.isfile(path):
        meant = nearest(boot, [name for name in os.listdir(code) if name.endswith(".py")])
        hint = f"did you mean `{meant}`?" if meant else "it is relative to `code`"
        return Finding("boot", f"names `{short(boot)}`, which is not in {code}", hint)
    if not _inside(real := os.path.realpath(path), code):
        message = f"names `{short(boot)}`, a link to {real} outside the code directory"
        return Finding("boot", message, "copy the file, so that the run keeps it")
    return None


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")

"""Paths of a job: `code`, `boot`, `python` and data, resolved against the directory of the job file."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.job.data import url
from muster.job.kinds import Item, Wrong, nearest
from muster.job.source import Finding, short


def resolve(values: Mapping[str, Any], fields: Set[str], unread: Set[str], base: Path) -> tuple[dict[str, Any], list[Finding]]:
    """The values with absolute paths, and what is wrong with `code`, `boot` and `python`. A URL is not looked up."""
    found = dict(values)
    for name in ("inputs", "outputs"):
        if name in found:
            found[name] = {key: replace(data, url=_absolute(data.url, base)) for key, data in found[name].items()}
    if found.get("log_url"):
        found["log_url"] = _absolute(found["log_url"], base)
    findings = []
    if "code" not in unread:
        findings += _code(found, base)
    if found.get("python") and ("boot" in fields or "command" not in fields):
        findings += _python(found, base)
    return found, findings


def _absolute(url: str, base: Path) -> str:
    return url if "://" in url else os.path.abspath(base / os.path.expanduser(url))


def _code(values: dict[str, Any], base: Path) -> list[Finding]:
    written = values.pop("code", ".")
    if "://" in written:
        try:
            values["code"] = url(Item(written, written))
        except Wrong as wrong:
            return [Finding("code", wrong.message, wrong.hint)]
        return []
    code = str(base / os.path.expanduser(written))
    if trouble := _unreadable(code):
        return [Finding("code", f"names `{short(code, 300)}`, which {trouble}", "it is relative to the job file")]
    values["code"] = os.path.realpath(code)
    return _boot(values)


def _python(values: dict[str, Any], base: Path) -> list[Finding]:
    python = os.path.expanduser(values["python"])
    resolved = shutil.which(str(base / python) if "/" in python else python)
    if resolved:
        values["python"] = resolved
        return []
    return [Finding("python", f"names `{short(python)}`, which cannot be run", "give a path or a name on your PATH")]


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


def _boot(values: dict[str, Any]) -> list[Finding]:
    boot, code = values.pop("boot", ""), values["code"]
    if not boot:
        return []
    path = os.path.normpath(os.path.join(code, boot))
    if os.path.isabs(boot) or not (path == code or _inside(path, code)):
        message = f"names `{short(boot)}`, which is outside the code directory"
        return [Finding("boot", message, f"it is relative to `code`, {code}")]
    if not os.path.isfile(path):
        if os.path.isdir(path):
            return [Finding("boot", f"names `{short(boot)}`, which is a directory", "name a Python file in it")]
        meant = nearest(boot, [name for name in os.listdir(code) if name.endswith(".py")])
        hint = f"did you mean `{meant}`?" if meant else "it is relative to `code`"
        return [Finding("boot", f"names `{short(boot)}`, which is not in {code}", hint)]
    if not _inside(real := os.path.realpath(path), code):
        message = f"names `{short(boot)}`, a link to {real} outside the code directory"
        return [Finding("boot", message, "copy the file, so that the run keeps it")]
    values["boot"] = os.path.normpath(boot)
    return []


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")

"""From a job file (or Python data) and overrides to a checked Job, with all problems at once."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.job.kinds import Item, Wrong, nearest
from muster.job.model import FIELDS, Job
from muster.job.source import JobError, Problem, decode, from_python, parse

# Names under which storage and clouds look for keys: never taken over from the submitter unless `secrets` names them.
SECRET_NAME = re.compile(r"(SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIALS?|API_?KEY|ACCESS_?KEY(_ID)?|PRIVATE_KEY)\Z", re.IGNORECASE)


def load_file(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Job:
    """The Job that a file describes, with `name=value` overrides; raises JobError with everything that is wrong."""
    file = os.fspath(path)
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        hint = "name a job file such as `job.yaml`" if isinstance(error, IsADirectoryError) else "check the path"
        message = f"cannot be read: {(error.strerror or str(error)).lower()}"
        raise JobError([Problem(file, None, "", message, hint)]) from None
    item, problems = parse(decode(data, file), file)
    return _load(item, problems, file, Path(file).resolve().parent, overrides, Path(file).stem)


def load_data(
    data: Mapping[str, Any], overrides: Sequence[str] = (), base: str | os.PathLike[str] = ".", source: str = "job"
) -> Job:
    """The Job that Python data describes; relative paths start at `base`."""
    return _load(from_python(dict(data)), [], source, Path(base).resolve(), overrides, "job")


def _load(item: Item, problems: list[Problem], file: str, base: Path, overrides: Sequence[str], name: str) -> Job:
    if item.value is None:
        message = "is empty"
        raise JobError([*problems, Problem(file, None, "", message, "a job needs at least `command` or `boot`")])
    if not isinstance(item.value, dict):
        message = f"holds {item.said} where a mapping of fields belongs"
        raise JobError([*problems, Problem(file, item.line, "", message, "write fields such as `command: echo hello`")])
    fields, origins = dict(item.value), dict.fromkeys(item.value, file)
    for override in overrides:
        problems += _override(fields, origins, override)
    read = _Fields(fields, origins, file)
    values = read.values()
    problems += read.problems
    if "name" not in fields:
        values["name"] = re.sub(r"[^\w.\-]+", "-", name).strip("-._")[:64] or "job"
    problems += _combinations(values, read)
    problems += _code(values, read, base)
    if problems:
        raise JobError(sorted(problems, key=lambda problem: (problem.file != file, problem.line or 0)))
    return Job(**values)


def _override(fields: dict[str, Item], origins: dict[str, str], override: str) -> list[Problem]:
    """Puts one `--set name=value` in place; nested names are written with dots."""
    source = f"--set {override}"
    path, equals, text = override.partition("=")
    if not equals or not path.strip():
        return [Problem(source, None, "", "is not of the form name=value", "such as `--set devices=4`")]
    item, problems = parse(text, source)
    keys = path.strip().split(".", 1)
    if len(keys) == 1:
        fields[keys[0]] = Item(item.value, item.text)
    else:
        outer = fields.get(keys[0], Item({}))
        inner = dict(outer.value) if isinstance(outer.value, dict) else {}
        inner[keys[1]] = Item(item.value, item.text)
        fields[keys[0]] = Item(inner, line=outer.line)
    origins[keys[0]] = source
    return problems


class _Fields:
    """Reads each field by its kind and collects what is wrong."""

    def __init__(self, fields: dict[str, Item], origins: dict[str, str], file: str) -> None:
        self.fields = fields
        self.origins = origins
        self.file = file
        self.problems: list[Problem] = []
        self.bad: set[str] = set()

    def values(self) -> dict[str, Any]:
        found = {}
        for name, item in self.fields.items():
            if name not in FIELDS:
                meant = nearest(name, list(FIELDS))
                hint = f"did you mean `{meant}`?" if meant else "`muster schema` lists the fields"
                self.problems.append(self.problem(name, "is not a field of a job", hint))
                continue
            try:
                found[name] = FIELDS[name].metadata["kind"].read(item)
            except Wrong as wrong:
                self.bad.add(name)
                self.problems.append(self.problem(name, wrong.message, wrong.hint))
        return found

    def problem(self, name: str, message: str, hint: str = "") -> Problem:
        item = self.fields.get(name)
        shown = name if len(name) <= 60 else name[:57] + "..."
        return Problem(self.origins.get(name, self.file), item.line if item else None, shown, message, hint)


def _combinations(values: dict[str, Any], read: _Fields) -> list[Problem]:
    """What single fields cannot tell: combinations that make no sense."""
    found = []

    def wrong(name: str, message: str, hint: str = "") -> None:
        found.append(read.problem(name, message, hint))

    given = read.fields
    framework = values.get("framework", "command")
    if "boot" in given and "command" in given:
        wrong("boot", "and `command` are both given", "keep the one that should run")
    if "boot" not in given and "command" not in given:
        wrong("", "says neither `boot` nor `command`", "add `boot: train.py` or `command: python train.py`")
    if values.get("per") and framework != "command":
        wrong("per", f"goes with framework `command`; {framework} starts one process per device", "remove it")
    if values.get("ps") and framework != "tensorflow":
        wrong("ps", f"goes with framework `tensorflow`, not with {framework}", "remove it")
    if values.get("rank_table") and framework != "mindspore":
        wrong("rank_table", f"goes with framework `mindspore`, not with {framework}", "remove it")
    if values.get("retry_on") and not values.get("retries") and "retries" not in read.bad:
        wrong("retry_on", "has no effect without `retries`", "add `retries: 2`, or remove it")
    if "python" in given and "boot" not in given and "command" in given:
        wrong("python", "runs `boot` files, and this job has a command", "write the Python into the command")
    for name in values.get("env", {}):
        if SECRET_NAME.search(name):
            wrong(
                "env",
                f"holds `{name}`, which looks like a secret",
                f"write `secrets: [{name}]` and set it in your environment",
            )
    for name in set(values.get("env", {})) & set(values.get("secrets", ())):
        wrong("secrets", f"and `env` both name `{name}`", "keep it in one of them")
    command = values.get("command", "")
    lines = isinstance(command, str) and "\n" in command.strip()
    if values.get("parameters") and lines and "$@" not in command and "$*" not in command:
        wrong("parameters", "have no place in a command of several lines", 'write `"$@"` where they belong')
    return found


def _code(values: dict[str, Any], read: _Fields, base: Path) -> list[Problem]:
    """Resolves `code`, `boot` and `python` against the file system."""
    found = []
    code = base / os.path.expanduser(values.get("code", "."))
    if "code" not in read.bad:
        if "://" in values.get("code", ""):
            found.append(read.problem("code", f"is a URL, `{values['code']}`", "it takes a directory on this machine"))
        elif not code.is_dir():
            reason = "is not a directory" if code.exists() else "does not exist"
            found.append(read.problem("code", f"names `{code}`, which {reason}", "it is relative to the job file"))
        else:
            values["code"] = os.path.realpath(code)
            found += _boot(values, read)
    if values.get("python"):
        python = os.path.expanduser(values["python"])
        resolved = shutil.which(str(base / python) if "/" in python else python)
        if resolved:
            values["python"] = resolved
        else:
            found.append(read.problem("python", f"names `{python}`, which cannot be run", "give a path or a name on your PATH"))
    return found


def _boot(values: dict[str, Any], read: _Fields) -> list[Problem]:
    boot = values.get("boot")
    if not boot:
        return []
    path = os.path.join(values["code"], boot)
    inside = os.path.normpath(path).startswith(values["code"].rstrip("/") + "/")
    if os.path.isabs(boot) or not inside:
        return [read.problem("boot", f"names `{boot}`, which is outside the code directory", "it is relative to `code`")]
    if not os.path.isfile(path):
        files = [entry for entry in os.listdir(values["code"]) if entry.endswith(".py")]
        meant = nearest(boot, files)
        hint = f"did you mean `{meant}`?" if meant else "it is relative to `code`"
        return [read.problem("boot", f"names `{boot}`, which is not in {values['code']}", hint)]
    values["boot"] = os.path.normpath(boot)
    return []

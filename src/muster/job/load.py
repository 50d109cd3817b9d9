"""From a job file (or Python data) and overrides to a checked Job, with all problems at once."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.job.bench import Benching, Metrics
from muster.job.data import Data, Urls, url
from muster.job.kinds import PASSWORD, Item, Pairs, Wrong, clean_name, nearest, without_password
from muster.job.model import FIELDS, LAUNCHERS, PLACE, SECRET_NAME, Job
from muster.job.slurm import Slurming
from muster.job.source import MOST_BYTES, JobError, Problem, decode, from_python, parse

# Commands for bash behind whose end no words can follow: several lines, a comment, one that is closed, sent off or only waits.
NO_PLACE = re.compile(r"\n|(\A|\s)#|[;&|]\Z|\bsleep\s+inf(inity)?['\"]?\Z")

# Their values belong into `secrets`, never into a file.
IN_URL = "a URL with a name or a password, and a job file is no place for one"
SECRET = re.compile(f"({SECRET_NAME})$", re.IGNORECASE)

# What other tools call a field.
ALSO = {
    "nodes": "num_nodes nnodes hosts machines servers workers replicas",
    "devices": "gpus gpu npus npu devices_per_node gpus_per_node nproc nproc_per_node",
    "boot": "script main entrypoint entry_point boot_file",
    "command": "cmd run exec shell",
    "parameters": "args arguments params hyperparameters flags",
    "env": "envs environment environments variables",
    "code": "code_dir source src directory",
    "time_limit": "timeout max_time walltime",
    "memory": "mem ram",
    "setup": "pre_command before",
    "workdir": "cwd working_dir",
    "retries": "retry max_retries restarts max_restarts",
    "inputs": "input data data_url datasets",
    "outputs": "output train_url",
    "compat": "platform style",
    "log_url": "log_dir log_path logs log_export_path",
    "requires": "layout needs",
}

# Directories that are not the machine's in a job: what is written there stays with the run.
OWN = ("", "/cache", "/tmp", "/home/work", "/home/ma-user")

# What an override takes the place of: a job runs one program.
REPLACES = {"boot": ("command",), "command": ("boot", "python")}

Check = Callable[[Job], Iterable[Sequence[tuple[str, str, str]]]]
"""What somebody else has to say about a job, such as an engine: fields with what is wrong and what to do about it.

It comes in steps, the cheap ones first: after one that finds the job wrong, the others (which ask stores) are left out.
"""


def load_file(path: str | os.PathLike[str], overrides: Sequence[str] = (), check: Check = lambda job: ()) -> Job:
    """The Job that a file describes, with `name=value` overrides; raises JobError with everything that is wrong."""
    file = os.fspath(path)
    try:
        with open(file, "rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        hint = "name a job file such as `job.yaml`" if isinstance(error, IsADirectoryError) else "check the path"
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise JobError([Problem(file, None, "", f"cannot be read: {reason.lower()}", hint)]) from None
    item, problems = parse(decode(data, file), file)
    base = _folder(file, file).parent if os.path.isfile(file) else _folder(".", file)  # a pipe lies nowhere
    return _load(item, problems, file, base, overrides, clean_name(Path(file).stem), check)


def load_data(
    data: Mapping[str, Any],
    overrides: Sequence[str] = (),
    base: str | os.PathLike[str] = ".",
    source: str = "job",
    check: Check = lambda job: (),
) -> Job:
    """The Job that Python data describes; relative paths start at `base`."""
    return _load(from_python(dict(data)), [], source, _folder(base, source), overrides, "", check)


def _folder(path: str | os.PathLike[str], file: str) -> Path:
    try:
        return Path(path).resolve()
    except OSError:
        message = "is looked for in the current directory, which is gone"
        raise JobError([Problem(file, None, "", message, "change into a directory that exists")]) from None


def _load(item: Item, problems: list[Problem], file: str, base: Path, overrides: Sequence[str], name: str, check: Check) -> Job:
    if item.value is None and not overrides:
        raise JobError([*problems, Problem(file, None, "", "is empty", "a job needs at least `command` or `boot`")])
    if not isinstance(item.value, dict | None):
        message = f"holds {item.said} where a mapping of fields belongs"
        raise JobError([*problems, Problem(file, item.line, "", message, "write fields such as `command: echo hello`")])
    read = _Fields(item.value or {}, file)
    for override in overrides:
        problems += _override(read, override)
    values = read.values()
    values.setdefault("name", name or "job")
    problems += read.problems + _combinations(values, read) + _code(values, read, base) + _data(values, read, base)
    job = Job(**values)
    for step in check(job):
        problems += [read.problem(*found) for found in step if found[0].partition(".")[0] not in read.bad]
        if problems:
            break
    if problems:
        raise JobError(sorted(problems, key=lambda problem: (problem.file != file, problem.line or 0)))
    return job


class _Fields:
    """The fields as given, each with where it comes from; reads them by their kinds and collects what is wrong."""

    def __init__(self, fields: Mapping[str, Item], file: str) -> None:
        self.given = dict(fields)
        self.file = file
        self.origins: dict[str, str] = {}  # by field, where that is not the file
        self.problems: list[Problem] = []
        self.bad: set[str] = set()

    def values(self) -> dict[str, Any]:
        found = {}
        for name, item in self.given.items():
            if name not in FIELDS:
                self.problems.append(self.problem(name, "is not a field of a job", _meant(name)))
                continue
            try:
                found[name] = FIELDS[name].metadata["kind"].read(item)
            except Wrong as wrong:
                self.bad.add(name)
                self.problems += [self._inside(name, one) for one in wrong.each]
        return found

    def problem(self, name: str, message: str, hint: str) -> Problem:
        item = self.given.get(name)
        field, _, inner = name.partition(".")
        if item is None and inner and field in self.given:
            return self.entry(field, inner, message, hint)
        return Problem(self.origins.get(name, self.file), item.line if item else None, _short(name), message, hint)

    def entry(self, field: str, name: str, message: str, hint: str) -> Problem:
        """A problem with one entry of a mapping."""
        value = self.given[field].value
        line = value[name].line if isinstance(value, dict) and name in value else None
        return self._inside(field, Wrong(message, hint, name, line))

    def _inside(self, field: str, wrong: Wrong) -> Problem:
        dot = "." if wrong.name and not wrong.name.startswith("[") else ""
        path = field + dot + wrong.name
        file = self.origins.get(path) or self.origins.get(field) or self.file
        line = (wrong.line or self.given[field].line) if file == self.file else None
        return Problem(file, line, _short(path), wrong.message, wrong.hint)


def _short(name: str, most: int = 80) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _meant(name: str) -> str:
    for field, others in ALSO.items():
        if name.lower().replace("-", "_") in others.split():
            return f"did you mean `{field}`?"
    meant = nearest(name.replace("-", "_"), list(FIELDS))
    return f"did you mean `{meant}`?" if meant else "`muster schema` lists the fields"


def _override(read: _Fields, override: str) -> list[Problem]:
    """Puts one `--set name=value` in place; nested names are written with dots."""
    path, equals, text = override.partition("=")
    name, dot, inner = path.strip().partition(".")
    hidden = name == "secrets" or SECRET.search(inner)  # somebody may have written the secret itself
    source = f"--set {path}=..." if hidden else f"--set {_short(without_password(override))}"
    if not equals or not name or (dot and not inner):
        return [Problem(source, None, "", "is not of the form name=value", "such as `--set devices=4`")]
    try:
        parsed, problems = parse(text, source)
    except JobError as error:
        return [replace(problem, line=None, field=name) for problem in error.problems]
    item = Item(parsed.value, parsed.text)
    if not dot:
        for replaced in REPLACES.get(name, ()):
            if replaced not in read.origins:
                read.given.pop(replaced, None)
        read.given[name] = item
        read.origins = {key: value for key, value in read.origins.items() if not key.startswith(name + ".")}
        read.origins[name] = source
    elif name in FIELDS and not isinstance(FIELDS[name].metadata["kind"], Pairs | Urls | Benching | Metrics | Slurming):
        problems.append(Problem(source, None, name, "has no fields of its own", f"write `--set {name}=...`"))
    else:
        outer = read.given.get(name)
        if outer is None:
            outer = Item({})
            read.origins[name] = source
        if isinstance(outer.value, dict):
            deep = isinstance(FIELDS[name].metadata["kind"], Benching | Metrics) if name in FIELDS else False
            read.given[name] = _put(outer, inner.split(".") if deep else [inner], item)
            read.origins[f"{name}.{inner}"] = source
    return [replace(problem, line=None) for problem in problems]


def _put(outer: Item, path: Sequence[str], item: Item) -> Item:
    """A mapping with one of its values in place, however deep that lies."""
    first, *rest = path
    fields = outer.value if isinstance(outer.value, dict) else {}
    return replace(outer, value={**fields, first: _put(fields.get(first, Item({})), rest, item) if rest else item})


def _combinations(values: dict[str, Any], read: _Fields) -> list[Problem]:
    """What single fields cannot tell: combinations that make no sense."""
    found = []

    def wrong(name: str, message: str, hint: str) -> None:
        found.append(read.problem(name, message, hint))

    given = read.given
    if "boot" in given and "command" in given:
        wrong("boot", "and `command` are both given", "keep the one that should run")
    if "boot" not in given and "command" not in given:
        wrong("", "says neither `boot` nor `command`", "add `boot: train.py` or `command: python train.py`")
    if "framework" not in read.bad:
        framework = values.get("framework", "command")
        if values.get("per") == "node" and framework != "command":
            wrong("per", f"is `node`, and {framework} starts one process per device", "write `per: device`, or remove it")
        if values.get("ps") and framework != "tensorflow":
            wrong("ps", f"goes with framework `tensorflow`, not with {framework}", "remove it")
        if values.get("rank_table") and framework != "mindspore" and not values.get("compat"):
            wrong("rank_table", f"goes with framework `mindspore` or with `compat`, not with {framework}", "remove it")
        if values.get("workdir") == "rank" and framework in LAUNCHERS:
            wrong("workdir", f"can only be `node` with {framework}, whose launcher starts the ranks", "remove it")
    if values.get("keep_alive") and values.get("compat") != "apulis" and "compat" not in read.bad:
        wrong("keep_alive", "goes with `compat: apulis`, where commands end with `sleep infinity`", "remove it")
    if values.get("compat") and values.get("workdir") == "rank":
        wrong("workdir", "cannot be `rank` with `compat`: those platforms have one code directory per node", "remove it")
    found += _benching(values, read)
    if values.get("retry_on") and not values.get("retries") and "retries" not in read.bad:
        wrong("retry_on", "has no effect without `retries`", "add `retries: 2`, or remove it")
    if "python" in given and "boot" not in given and "command" in given:
        wrong("python", "runs `boot` files, and this job has a command", "write the Python into the command")
    command = values.get("command", "")
    if isinstance(command, str) and not PLACE.search(command) and NO_PLACE.search(command.strip()):
        for name in (name for name in ("parameters", "inputs", "outputs") if _words(values.get(name, {}))):
            wrong(name, "have no place behind this command", 'write `"$@"` in it where they belong')
    return found + _variables(values, read) + _passwords(values, read)


def _passwords(values: dict[str, Any], read: _Fields) -> list[Problem]:
    """Passwords in URLs that the record of a run, and command lines that everybody sees, would hold."""
    hint = "name a variable in `secrets`, and let the program read that"
    found = [
        read.entry("parameters", name, f"holds {IN_URL}", hint)
        for name, value in values.get("parameters", {}).items()
        if PASSWORD.search(value)
    ]
    command = values.get("command", "")
    texts = {"command": command if isinstance(command, str) else "\n".join(command), "setup": values.get("setup", "")}
    for field, text in texts.items():
        if PASSWORD.search(text):
            found.append(read.problem(field, f"holds {IN_URL}", "write `$NAME` in its place, and name NAME in `secrets`"))
    return found


def _benching(values: dict[str, Any], read: _Fields) -> list[Problem]:
    """What cannot be measured like this."""
    bench = values.get("bench")
    if bench is None or bench.scope != "server":
        return []
    if values.get("framework") in LAUNCHERS or values.get("compat") == "apulis" or values.get("ps"):
        which = "parameter servers" if values.get("ps") else values.get("compat") or values["framework"]
        message = f"makes a world of every node, which {which} cannot be split into"
        return [read.entry("bench", "scope", message, "measure one node, with `nodes: 1` and scope `cluster`")]
    return []


def _words(entries: Mapping[str, str | Data]) -> bool:
    """Whether some of these are passed to the program as words."""
    return any(not isinstance(entry, Data) or entry.access == "parameter" for entry in entries.values())


def _variables(values: dict[str, Any], read: _Fields) -> list[Problem]:
    """Variables that a job cannot set, or not like this."""
    found = []
    for name, value in values.get("env", {}).items():
        if name.startswith("MUSTER_"):
            found.append(read.entry("env", name, "is a name that Muster keeps for itself", "give it another name"))
        elif SECRET.search(name) and value:
            hint = f"write `secrets: [{name}]` and export it, or put it into a profile"
            found.append(read.entry("env", name, "looks like a secret, and a job file is no place for one", hint))
        elif PASSWORD.search(value):
            hint = f"write `secrets: [{name}]` and export it, or put it into a profile"
            found.append(read.entry("env", name, f"holds {IN_URL}", hint))
    for name in values.get("secrets", ()):
        if name.startswith("MUSTER_"):
            found.append(read.problem("secrets", f"names `{name}`, which Muster keeps for itself", "give it another name"))
        if name in values.get("env", {}):
            found.append(read.problem("secrets", f"and `env` both name `{name}`", "keep it in one of them"))
    return found


def _data(values: dict[str, Any], read: _Fields, base: Path) -> list[Problem]:
    """Resolves the paths among inputs, outputs and logs, and looks at their names together."""
    found = []
    given = {kind: values.get(kind, {}) for kind in ("inputs", "outputs")}
    for kind, entries in given.items():
        for name, data in entries.items():
            entries[name] = replace(data, url=_absolute(data.url, base))
            if data.access == "env" and name.startswith("MUSTER_"):
                found.append(read.entry(kind, name, "is a name that Muster keeps for itself", "give it another name"))
            if name in values.get("parameters", {}) or name in values.get("env", {}):
                other = "parameters" if name in values.get("parameters", {}) else "env"
                found.append(read.entry(kind, name, f"is also named by `{other}`", "keep it in one of them"))
    for name, data in given["outputs"].items():
        if data.url.rstrip("/") in OWN:
            hint = "name a directory inside of it, or elsewhere"
            found.append(read.entry("outputs", name, f"is {data.url}, which every simulated node has for itself", hint))
    for name in sorted(set(given["inputs"]) & set(given["outputs"])):
        found.append(read.entry("outputs", name, "is also an input", "give one of them another name"))
    for name in values.get("requires", {}):
        if name not in given["inputs"] and "inputs" not in read.bad:
            known = ", ".join(f"`{known}`" for known in given["inputs"]) or "none"
            found.append(read.entry("requires", name, "is not an input of this job", f"its inputs: {known}"))
    if values.get("log_url"):
        values["log_url"] = _absolute(values["log_url"], base)
    return found


def _absolute(url: str, base: Path) -> str:
    return url if "://" in url else os.path.abspath(base / os.path.expanduser(url))


def _code(values: dict[str, Any], read: _Fields, base: Path) -> list[Problem]:
    """Resolves `code`, `boot` and `python` against the file system; a URL is looked at when the run is made."""
    found = []
    written = values.get("code", ".")
    code = str(base / os.path.expanduser(written))
    if "code" not in read.bad:
        values.pop("code", None)
        if "://" in written:
            try:
                values["code"] = url(read.given["code"])
            except Wrong as wrong:
                found.append(read.problem("code", wrong.message, wrong.hint))
        elif trouble := _trouble(code):
            found.append(
                read.problem("code", f"names `{_short(code, 300)}`, which {trouble}", "it is relative to the job file")
            )
        else:
            values["code"] = os.path.realpath(code)
            found += _boot(values, read)
    if values.get("python") and ("boot" in read.given or "command" not in read.given):
        python = os.path.expanduser(values["python"])
        resolved = shutil.which(str(base / python) if "/" in python else python)
        if resolved:
            values["python"] = resolved
        else:
            message = f"names `{_short(python)}`, which cannot be run"
            found.append(read.problem("python", message, "give a path or a name on your PATH"))
    return found


def _trouble(path: str) -> str:
    """Why a path cannot be the code directory, if so."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return "is not a directory"
        return "" if os.access(path, os.R_OK | os.X_OK) else "you may not read"
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({str(error.strerror).lower()})"


def _boot(values: dict[str, Any], read: _Fields) -> list[Problem]:
    boot, code = values.pop("boot", ""), values["code"]
    if not boot:
        return []
    path = os.path.normpath(os.path.join(code, boot))
    if os.path.isabs(boot) or not (path == code or _inside(path, code)):
        message = f"names `{_short(boot)}`, which is outside the code directory"
        return [read.problem("boot", message, f"it is relative to `code`, {code}")]
    if not os.path.isfile(path):
        if os.path.isdir(path):
            return [read.problem("boot", f"names `{_short(boot)}`, which is a directory", "name a Python file in it")]
        meant = nearest(boot, [name for name in os.listdir(code) if name.endswith(".py")])
        hint = f"did you mean `{meant}`?" if meant else "it is relative to `code`"
        return [read.problem("boot", f"names `{_short(boot)}`, which is not in {code}", hint)]
    if not _inside(real := os.path.realpath(path), code):
        message = f"names `{_short(boot)}`, a link to {real} outside the code directory"
        return [read.problem("boot", message, "copy the file, so that the run keeps it")]
    values["boot"] = os.path.normpath(boot)
    return []


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")

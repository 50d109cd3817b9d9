"""From a job file, Python data or a Job, with overrides, to a LoadedJob: the Job and all its problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.dataclass import dataclass, replace
from muster.job import paths, rules
from muster.job.kinds import Item, Wrong, clean_name, nearest, typed, without_password
from muster.job.model import FIELDS, Job
from muster.job.source import MOST_BYTES, JobError, Problem, decode, from_python, parse, short

# What other tools call a field.
ALSO = {
    "nodes": "num_nodes nnodes machines servers workers replicas",
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
# What an override takes the place of: a job runs one program.
REPLACES = {"boot": ("command",), "command": ("boot", "python")}

Source = str | os.PathLike[str] | Mapping[str, Any] | Job


@dataclass(frozen=True)
class LoadedJob:
    """A job as it was read: its fields with where each stands, and the problems that were found so far."""

    job: Job  # fields that could not be read have their defaults
    fields: Mapping[str, Item]
    file: str
    problems: tuple[Problem, ...] = ()
    unread: frozenset[str] = frozenset()  # fields that are given and could not be read
    text: str = ""  # the job file as written

    def with_findings(self, findings: Iterable[tuple[str, str, str]]) -> LoadedJob:
        """The same with more problems; those of fields that could not be read are left out, for their values are not known."""
        found = [self._problem(*finding) for finding in findings if finding[0].partition(".")[0] not in self.unread]
        return replace(self, problems=(*self.problems, *found))

    def checked(self) -> Job:
        """Returns the job. Raises JobError with all problems, in the order of the file."""
        if self.problems:
            raise JobError(sorted(self.problems, key=lambda problem: (problem.file != self.file, problem.line or 0)))
        return self.job

    def _problem(self, field: str, message: str, hint: str) -> Problem:
        name, _, inner = (field, "", "") if field in self.fields else field.partition(".")
        outer = self.fields.get(name)
        entries = outer.value if outer and isinstance(outer.value, dict) else {}
        entry = entries.get(inner, Item(None))
        return _located(self.file, name, outer, Wrong(message, hint, inner, entry.line, entry.source))


def load(source: Source, sets: Sequence[str] = (), base: str | os.PathLike[str] = ".", name: str = "job") -> LoadedJob:
    """Reads a job file, a mapping or a Job, with `name=value` overrides.

    Relative paths of data start at `base`; problems of data are reported under `name`. Raises JobError for a source that has
    no fields at all, such as a file that cannot be read.
    """
    if isinstance(source, Job):
        return _loaded(Item(_fields_of(source)), [], name, _folder(base, name), sets)
    if isinstance(source, Mapping):
        return _loaded(from_python(dict(source)), [], name, _folder(base, name), sets)
    file = os.fspath(source)
    folder = _folder(file, file).parent if os.path.isfile(file) else _folder(".", file)  # a pipe lies nowhere
    return load_text(decode(_read(file), file), sets, folder, file)


def load_text(text: str, sets: Sequence[str], base: Path, file: str) -> LoadedJob:
    """Reads the text of a job file, whose mistakes are reported under the name `file`. Raises JobError as `load` does."""
    item, problems = parse(text, file)
    return replace(_loaded(item, problems, file, base, sets, clean_name(Path(file).stem)), text=text)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        hint = "name a job file such as `job.yaml`" if isinstance(error, IsADirectoryError) else "check the path"
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise JobError([Problem(file, None, "", f"cannot be read: {reason.lower()}", hint)]) from None


def _folder(path: str | os.PathLike[str], file: str) -> Path:
    try:
        return Path(path).resolve()
    except OSError:
        message = "is looked for in the current directory, which is gone"
        raise JobError([Problem(file, None, "", message, "change into a directory that exists")]) from None


def _fields_of(job: Job) -> dict[str, Item]:
    """The fields of a Job that differ from their defaults, typed."""
    plain = Job()
    given = {name: getattr(job, name) for name in FIELDS if getattr(job, name) != getattr(plain, name)}
    if not job.boot:
        given.pop("python", None)
    return {name: typed(value) for name, value in given.items()}


def _loaded(item: Item, problems: list[Problem], file: str, base: Path, sets: Sequence[str], name: str = "") -> LoadedJob:
    if item.value is None and not sets:
        raise JobError([*problems, Problem(file, None, "", "is empty", "a job needs at least `command` or `boot`")])
    if not isinstance(item.value, dict | None):
        message = f"holds {item.shown} where a mapping of fields belongs"
        raise JobError([*problems, Problem(file, item.line, "", message, "write fields such as `command: echo hello`")])
    fields = dict(item.value or {})
    for override in [sets] if isinstance(sets, str) else sets:
        problems += _override(fields, override)
    read, wrong = _values(fields, file)
    if "nodes" not in fields and (hosts := read.get("hosts")) and hosts.nodes:
        read["nodes"] = len(hosts.nodes)  # a list of hosts says how many take part
    unread = frozenset(name for name in fields if name in FIELDS and name not in read)
    job, path_findings = paths.resolve(Job(**{"name": name or "job", **read}), fields.keys(), unread, base)
    own = [*rules.program(job, fields.keys(), unread), *rules.variables(job), *rules.passwords(job)]
    loaded = LoadedJob(job, fields, file, (*problems, *wrong))
    return replace(loaded.with_findings([*own, *path_findings, *rules.data(job, unread)]), unread=unread)


def _override(fields: dict[str, Item], override: str) -> list[Problem]:
    """Applies one `name=value` to the fields of a job, nested names with dots; returns its problems."""
    path, equals, text = override.partition("=")
    name, dot, inner = path.strip().partition(".")
    hidden = name == "secrets" or rules.SECRET.search(inner)  # the user may have written the secret itself
    source = f"--set {path}=..." if hidden else f"--set {short(without_password(override))}"
    if not equals or not name or (dot and not inner):
        return [Problem(source, None, "", "is not of the form name=value", "such as `--set devices=4`")]
    try:
        parsed, problems = parse(text, source)
    except JobError as error:
        return [replace(problem, line=None, field=name) for problem in error.problems]
    item = Item(parsed.value, parsed.text, source=source)
    if not dot:
        for replaced in REPLACES.get(name, ()):
            if replaced in fields and not fields[replaced].source:
                del fields[replaced]
        before = fields.get(name) if name in FIELDS else None
        fields[name] = FIELDS[name].metadata["kind"].over(before, item) if before is not None else item
    else:
        problems += _put(fields, name, inner, item)
    return [replace(problem, line=None) for problem in problems]


def _put(fields: dict[str, Item], name: str, inner: str, item: Item) -> list[Problem]:
    outer = fields.setdefault(name, Item({}, source=item.source))
    if name not in FIELDS:
        return []  # it is refused as an unknown field
    kind = FIELDS[name].metadata["kind"]
    opened = kind.opened(outer)
    changed = kind.put(replace(opened, value=opened.value or {}), inner, item)
    if changed is None:
        if outer.source == item.source:
            del fields[name]
        return [Problem(item.source, None, name, "has no fields of its own", f"write `--set {name}=...`")]
    if isinstance(opened.value, dict | None):
        fields[name] = changed
    return []


def _values(fields: Mapping[str, Item], file: str) -> tuple[dict[str, Any], list[Problem]]:
    """The fields that could be read, and what is wrong with the others."""
    found, problems = {}, []
    for name, item in fields.items():
        try:
            if name not in FIELDS:
                raise Wrong("is not a field of a job", _meant(name))
            found[name] = FIELDS[name].metadata["kind"].read(item)
        except Wrong as wrong:
            problems += [_located(file, name, item, one) for one in wrong.each]
    return found, problems


def _located(file: str, field: str, item: Item | None, wrong: Wrong) -> Problem:
    """The problem for an error of a field, or of an entry of it, with its file or override and its line."""
    dot = "." if wrong.name and not wrong.name.startswith("[") else ""
    source = wrong.source or (item.source if item else "")
    line = None if source else wrong.line or (item.line if item else None)
    return Problem(source or file, line, short(field + dot + wrong.name), wrong.message, wrong.hint)


def _meant(name: str) -> str:
    for field, others in ALSO.items():
        if name.lower().replace("-", "_") in others.split():
            return f"did you mean `{field}`?"
    meant = nearest(name.replace("-", "_"), list(FIELDS))
    return f"did you mean `{meant}`?" if meant else "`muster schema` lists the fields"

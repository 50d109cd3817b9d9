"""`--set name=value`: fields that take the place of those of a job file; nested names are written with dots."""

from __future__ import annotations

from dataclasses import replace

from muster.job.kinds import Item, without_password
from muster.job.model import FIELDS
from muster.job.rules import SECRET
from muster.job.source import JobError, Problem, parse, short

# What an override takes the place of: a job runs one program.
REPLACES = {"boot": ("command",), "command": ("boot", "python")}


def apply(fields: dict[str, Item], override: str) -> list[Problem]:
    """Applies one override to the fields of a job; returns its problems."""
    path, equals, text = override.partition("=")
    name, dot, inner = path.strip().partition(".")
    hidden = name == "secrets" or SECRET.search(inner)  # the user may have written the secret itself
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
        fields[name] = item
    else:
        problems += _put(fields, name, inner, item)
    return [replace(problem, line=None) for problem in problems]


def _put(fields: dict[str, Item], name: str, inner: str, item: Item) -> list[Problem]:
    outer = fields.setdefault(name, Item({}, source=item.source))
    if name not in FIELDS:
        return []  # it is refused as an unknown field
    changed = FIELDS[name].metadata["kind"].put(replace(outer, value=outer.value or {}), inner, item)
    if changed is None:
        if outer.source == item.source:
            del fields[name]
        return [Problem(item.source, None, name, "has no fields of its own", f"write `--set {name}=...`")]
    if isinstance(outer.value, dict | None):
        fields[name] = changed
    return []

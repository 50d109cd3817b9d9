"""Versions of a run: what it was cloned from, and what differs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from muster.job import Job
from muster.job.kinds import Duration, Size, without_password
from muster.job.model import FIELDS
from muster.job.rules import SECRET
from muster.records.text import units
from muster.server.core.access import Principal
from muster.server.core.tables import runs
from muster.server.runs import rows
from muster.server.runs.rows import Row

MOST_VERSIONS = 50
MOST_CHANGES = 200
MOST_LETTERS = 200
HIDDEN = "***"
OF_POOL = ("code", "hosts")  # fields that the server fills in


@dataclass(frozen=True)
class Change:
    """A field of the job that differs; null where the job does not have it. What looks like a secret is stars."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Version:
    run: str
    user: str
    created: float


@dataclass(frozen=True)
class Origin:
    """What a run was cloned from. All of it is empty where it is no clone, or where its origin may not be seen."""

    run: str
    origin: str | None
    changes: list[Change]
    code_changed: bool | None
    versions: list[Version]  # its origin, that one's origin and so on, as far as they may be seen


def origin_of(connection: Connection, principal: Principal, row: Row) -> Origin:
    found: list[Row] = []
    seen = {row.id}
    last = row
    while last.origin and last.origin not in seen and len(found) < MOST_VERSIONS:
        wanted = rows.visible(principal).where(runs.c.id == last.origin)
        data = connection.execute(wanted).mappings().first()
        if data is None:
            break
        last = rows.of(data)
        seen.add(last.id)
        found.append(last)
    if not found:
        return Origin(row.id, None, [], None, [])
    versions = [Version(one.id, one.user_name, one.created) for one in found]
    return Origin(row.id, found[0].id, changes(found[0], row), _code(found[0]) != _code(row), versions)


def changes(before: Row, after: Row) -> list[Change]:
    """The fields of two jobs that differ, as a job file would write them."""
    old, new = _fields(before), _fields(after)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [Change(name, _shown(name, old.get(name)), _shown(name, new.get(name))) for name in names[:MOST_CHANGES]]


def _code(row: Row) -> str:
    return row.code or str(row.job.get("code"))


def _fields(row: Row) -> dict[str, Any]:
    """The fields of a job by name; those of mappings by names with dots. Empty ones are left out."""
    known = {name: value for name, value in Job.from_json(row.job).to_json().items() if name not in OF_POOL}
    flat = _flat("", {**known, "project": row.project_name, "pool": row.pool})
    return {name: value for name, value in flat.items() if value not in (None, "", (), [])}


def _flat(outer: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        found |= _flat(f"{outer}{name}.", value) if isinstance(value, Mapping) else {outer + name: value}
    return found


def _shown(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if SECRET.search(name):
        return HIDDEN
    kind = FIELDS[name].metadata["kind"] if name in FIELDS else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and isinstance(kind, Duration):
        return units.duration(value)
    if number and isinstance(kind, Size):
        return units.size(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = without_password(text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"

"""A Job as a job file would say it: the fields that differ from their defaults, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.job.kinds import Duration, Kind, Share, Size, Table, fields_of
from muster.job.model import Job


def written(job: Job) -> dict[str, Any]:
    """The fields of a Job that differ from their defaults; read as a job file, they give the same Job."""
    found = _fields(job)
    if not job.boot:
        found.pop("python", None)
    return found


def _fields(value: Any) -> dict[str, Any]:
    given = {name: (getattr(value, name), field) for name, field in fields_of(type(value)).items()}
    return {
        name: _plain(field.metadata["kind"], entry)
        for name, (entry, field) in given.items()
        if entry not in ("", None, ()) and entry != field.default
    }


def _plain(kind: Kind | None, value: Any) -> Any:
    if isinstance(kind, Duration):
        return f"{value:f}s"
    if isinstance(kind, Size):
        return f"{value / 1024:f}K"
    if isinstance(kind, Share):
        return f"{value * 100:f}%"
    if isinstance(value, Mapping):
        return {name: _plain(kind.kind if isinstance(kind, Table) else None, entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(None, entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        known = fields_of(type(value))
        return _fields(value) if known else {name: entry for name, entry in vars(value).items() if entry not in ("", None, ())}
    return value

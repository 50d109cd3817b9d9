"""What a submission begins with that clones a run: its job file as it was written, and the fields that differed from it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.job import Job
from muster.job.load import load_text
from muster.job.model import FIELDS
from muster.job.source import JobError
from muster.job.written import written
from muster.server.runs.rows import Row

OF_SERVER = ("code", "hosts", "python", "name", "project", "pool", "after")  # what the server filled in, or is said apart
UNLESS_WRITTEN = ("device", "time_limit", "rank_table")  # fields that the pool fills in where the job says nothing
NOWHERE = Path("/nonexistent")  # files beside the job file are not looked for
_SECONDS = re.compile(r"(\d+)\.0+s")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def start(row: Row) -> dict[str, Any]:
    """The text of the job file, and fields to be set in it (null: removed)."""
    given: Mapping[str, Any] = {}
    source, old = "", {}
    try:
        loaded = load_text(row.source, [], NOWHERE, "job.yaml")
        source, given, old = row.source, loaded.fields, written(loaded.job)
    except JobError:
        pass  # all fields come from the record
    new = written(Job.from_json(row.job))
    fields: dict[str, Any] = {}
    for name in FIELDS:
        filled_in = name in OF_SERVER or (name in UNLESS_WRITTEN and (name not in given or old.get(name) is None) and source)
        if not filled_in and old.get(name) != new.get(name):
            fields[name] = _short(new.get(name))
    if "://" in str(row.job.get("code")) and "code" not in given:
        fields["code"] = row.job["code"]
    said = {"name": row.name, "project": row.project_name, "pool": row.pool}
    return {"text": source, "fields": {**said, **fields}}


def _short(value: Any) -> Any:
    """A value with times as people write them."""
    if isinstance(value, Mapping):
        return {name: _short(entry) for name, entry in value.items()}
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    seconds = int(match[1])
    size, unit = next(found for found in _UNITS if seconds % found[0] == 0)
    return f"{seconds // size}{unit}"

"""Running a recorded job again, with the code as it was recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any

from muster.job import Job
from muster.job.load import load_data
from muster.launch import create, snapshot
from muster.launch.run import Run
from muster.records.files import read_object
from muster.records.layout import home


def prepare(run: Run, set: Sequence[str] = ()) -> create.Prepared:
    """Prepares the recorded job of a run with its recorded code, and `name=value` overrides."""
    record = read_object(run.dir.run)
    code = str(snapshot.folder(home(), str(record.get("code"))))
    data = {**recorded_fields(run.job), "code": code}

    def damaged(job: Job) -> list[tuple[str, str, str]]:
        if job.code != os.path.realpath(code) or snapshot.intact(home(), str(record.get("code"))):
            return []
        message = f"names {code}, whose files are not the recorded ones any more"
        return [("code", message, "start the job from its own code with `muster run`, or add `--set code=DIR`")]

    prepared = create.prepare(
        lambda check: load_data(data, set, source=run.id, check=lambda job: chain([damaged(job)], check(job))),
        record.get("engine", "local"),
    )
    if os.path.realpath(code) != prepared.job.code:  # an override names other code
        return prepared
    return replace(prepared, job=replace(prepared.job, code=run.job.code))  # it is called what it was called


def recorded_fields(job: Job) -> dict[str, Any]:
    """A recorded job in the form that a job file has, for checking it again together with overrides."""
    fields = {}
    for name, value in job.to_json().items():
        if value in ("", None, (), {}) or (name == "ps" and not value):
            continue
        if name in ("time_limit", "silent_limit", "grace", "keep_alive", "sample"):
            value = f"{value:.9f}s"
        elif name == "memory":
            value = f"{value / 1024:.10f}K"  # exact: 1/1024 has ten decimals
        elif name == "bench":
            shares = {over: f"{Decimal(repr(limit)) * 100:f}%" for over, limit in value["limits"].items()}
            value = {**value, "limits": shares, "idle": f"{value['idle']:.9f}s"}
        elif name == "slurm":
            value = {key: entry for key, entry in value.items() if entry not in ("", None, ())}
        elif name == "metrics":
            value = {metric: {key: text for key, text in entry.items() if text} for metric, entry in value.items()}
        fields[name] = value
    if not job.boot:
        fields.pop("python", None)
    return fields

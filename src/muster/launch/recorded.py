"""A job as a run recorded it, in the form in which a job file would say it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from muster.job import Job


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

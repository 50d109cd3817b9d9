"""The numbers that the ranks of a run recorded, in short: complete, or null with the reason."""

from __future__ import annotations

from typing import Any

from muster.job import Job
from muster.metrics.observed import Observed, observe
from muster.metrics.totals import Measured, measure, names
from muster.records.json_safe import plain
from muster.records.layout import AttemptDir


def collect(attempt: AttemptDir, job: Job) -> dict[str, Any] | None:
    """What was recorded in an attempt, in whatever way; None when nothing was."""
    return brief(observe(attempt, job))


def brief(observed: Observed) -> dict[str, Any] | None:
    """The numbers of what was observed; None when nothing was recorded."""
    if not observed.readings and not observed.strays:
        return None
    found: dict[str, Any] = plain({name: _in_short(measure(observed, name)) for name in names(observed)})
    return found


def _in_short(measured: Measured) -> dict[str, Any]:
    return {"value": measured.whole.value, "unit": measured.unit, "reason": measured.whole.reason}

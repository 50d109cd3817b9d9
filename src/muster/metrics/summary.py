"""The metrics of a run in short, as its final record has them: each complete, or null with the reason."""

from __future__ import annotations

from typing import Any

from muster.job import Job
from muster.metrics.observed import Observed, observe
from muster.metrics.totals import measure, names
from muster.metrics.values import MetricTotals
from muster.records.json_safe import plain
from muster.records.layout import AttemptDir


def collect(attempt: AttemptDir, job: Job) -> dict[str, Any] | None:
    """The metrics of an attempt; None when nothing was recorded."""
    return brief(observe(attempt, job))


def brief(observed: Observed) -> dict[str, Any] | None:
    """The metrics of what was observed; None when nothing was recorded."""
    if not observed.values and not observed.strays:
        return None
    found: dict[str, Any] = plain({name: _brief(measure(observed, name)) for name in names(observed)})
    return found


def _brief(metric: MetricTotals) -> dict[str, Any]:
    return {"value": metric.whole.value, "unit": metric.unit, "reason": metric.whole.reason}

"""The numbers that the ranks of a run recorded, in short: complete, or null with the reason."""

from __future__ import annotations

from typing import Any, Dict, Optional

from muster.job import Job
from muster.runs.layout import AttemptDir
from muster.runs.measured import Measured, measure, names
from muster.runs.observed import observe
from muster.runs.plain import plain


def collect(attempt: AttemptDir, job: Job) -> Optional[Dict[str, Any]]:
    """What was recorded in an attempt, in whatever way; None when nothing was."""
    observed = observe(attempt, job)
    if not observed.readings and not observed.strays:
        return None
    found: Dict[str, Any] = plain({name: _brief(measure(observed, name)) for name in names(observed)})
    return found


def _brief(measured: Measured) -> Dict[str, Any]:
    return {"value": measured.whole.value, "unit": measured.unit, "reason": measured.whole.reason}

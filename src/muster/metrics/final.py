"""The final record of a run: how it ended, and the numbers that its ranks reported."""

from __future__ import annotations

from typing import Any

from muster.dataclass import replace
from muster.job import Job
from muster.metrics.log_numbers import Unread
from muster.metrics.observed import Observed, observe
from muster.metrics.totals import measure, names
from muster.records import derive, state
from muster.records.damage import Damaged, damaged_view, guarded
from muster.records.files import write_once
from muster.records.layout import AttemptDir, RunDir
from muster.records.run_view import RunView, State, is_final
from muster.records.status import Status
from muster.records.untrusted import plain


def final(record: state.Record, status: Status | None = None, unread: Unread | None = None) -> RunView:
    """Computes the final record from the files of a run, except for logs listed in `unread`."""
    view = derive.final(record, status)
    if not record.attempts or view.state is not State.SUCCEEDED:
        return view
    observed = observe(record.attempts[-1].dir, record.job, unread)
    missing = observed.unread.to_json() if observed.unread != Unread() else None
    return replace(view, result=_brief(observed), unread=missing)


def derived(run: RunDir, status: Status | None = None, unread: Unread | None = None) -> RunView:
    """The final record of a run that has none yet; of one whose files are damaged, the record that says so."""
    try:
        with guarded(run):
            return final(state.read(run), status, unread)
    except Damaged as damage:
        return damaged_view(run, str(damage), alive=False)


def conclude(run: RunDir, status: Status | None = None, unread: Unread | None = None) -> RunView:
    """Writes the final record, once; a second process gets what the first wrote."""
    found = derived(run, status, unread)
    try:
        write_once(run.final, found.to_json(), is_final)
    except OSError:
        return found  # a full disk: it can be written later
    return state.recorded(run) or found


def collect(attempt: AttemptDir, job: Job) -> dict[str, Any] | None:
    """The metrics of an attempt in short, each complete or null with the reason; None when nothing was recorded."""
    return _brief(observe(attempt, job))


def _brief(observed: Observed) -> dict[str, Any] | None:
    if not observed.values and not observed.strays:
        return None
    metrics = [measure(observed, name) for name in names(observed)]
    whole = {each.name: {"value": each.whole.value, "unit": each.unit, "reason": each.whole.reason} for each in metrics}
    found: dict[str, Any] = plain(whole)
    return found

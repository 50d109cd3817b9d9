"""The final record of a run: how it ended, and the numbers that its ranks reported."""

from __future__ import annotations

from typing import Any

from muster.metrics.log_numbers import Unread
from muster.metrics.observed import observe
from muster.metrics.summary import brief
from muster.records import state
from muster.records.damage import Damaged, guarded, stand_in
from muster.records.files import write_once
from muster.records.final_record import is_final
from muster.records.layout import RunDir


def final(record: state.Record, status: state.Status | None = None, unread: Unread | None = None) -> dict[str, Any]:
    """Computes the final record from the files of a run, except for logs listed in `unread`."""
    view = state.final(record, status)
    if record.attempts and view["state"] == "succeeded":
        observed = observe(record.attempts[-1].dir, record.job, unread)
        view["result"] = brief(observed)
        if observed.unread != Unread():
            view["unread"] = observed.unread.to_json()
    return view


def derived(run: RunDir, status: state.Status | None = None, unread: Unread | None = None) -> dict[str, Any]:
    """The final record of a run that has none yet; of one whose files are damaged, the record that says so."""
    try:
        with guarded(run):
            return state.checked(final(state.read(run), status, unread))
    except Damaged as damage:
        return stand_in(run, str(damage), alive=False)


def conclude(run: RunDir, status: state.Status | None = None, unread: Unread | None = None) -> dict[str, Any]:
    """Writes the final record, once; a second process gets what the first wrote."""
    found = derived(run, status, unread)
    try:
        write_once(run.final, found, is_final)
    except OSError:
        return found  # a full disk: it can be written later
    return state.recorded(run) or found

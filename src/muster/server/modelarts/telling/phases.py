"""How a run stands, in the words of the service: phases, their order in time, and what they are in the table of runs."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, or_

from muster.records.run_view import State
from muster.server.core.tables import runs
from muster.server.runs import rows
from muster.server.runs.rows import Row

PENDING, RUNNING, TERMINATING, ABNORMAL = "Pending", "Running", "Terminating", "Abnormal"
ENDED = {
    State.SUCCEEDED: ("Completed", "Completed"),
    State.FAILED: ("Failed", "Failed"),
    State.STOPPED: ("Terminated", "Terminated"),
    State.LOST: (ABNORMAL, "Lost"),
    State.DAMAGED: (ABNORMAL, "Unknown"),
}
_OF_ENDED = {phase: [state.value for state in ENDED if ENDED[state][0] == phase] for phase, _ in ENDED.values()}


def phases(row: Row, state: str) -> tuple[str, str]:
    """Phase and secondary phase of a run that is shown in a state."""
    if row.stage == rows.ENDED:
        return ENDED.get(State(state), (ABNORMAL, "Unknown"))
    if row.stop is not None:
        return TERMINATING, TERMINATING
    if row.stage == rows.WAITING:
        return PENDING, "Queuing"
    if state in (State.RUNNING.value, State.STOPPING.value):
        return RUNNING, RUNNING
    return PENDING, "Creating"


def condition(phase: str) -> ColumnElement[bool] | None:
    """The rows of runs that are in a phase; None for one that no run has."""
    if phase in _OF_ENDED:
        return and_(runs.c.stage == rows.ENDED, runs.c.state.in_(_OF_ENDED[phase]))
    going, stopping = runs.c.stage != rows.ENDED, runs.c.stop.is_not(None)
    runs_now = and_(runs.c.stage != rows.WAITING, runs.c.state.in_([State.RUNNING.value, State.STOPPING.value]))
    if phase == TERMINATING:
        return and_(going, stopping)
    if phase == RUNNING:
        return and_(going, ~stopping, runs_now)
    if phase == PENDING:
        return and_(going, ~stopping, or_(runs.c.stage == rows.WAITING, runs.c.state.in_(["pending", "starting"])))
    return None

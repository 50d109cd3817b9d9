"""Lists of runs: whose, filtered, searched and sorted, a page at a time, also where there are a hundred thousand.

A page is found in two steps: the numbers of its runs from indexes that hold all columns which filters look at, then the runs.
"""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, false, func, or_, select

from muster.records.run_view import State
from muster.server.core.access import Principal
from muster.server.core.paging import page
from muster.server.core.tables import projects, runs, users
from muster.server.runs import rows
from muster.server.runs.rows import Row

Scope = Literal["all", "projects", "mine"]
Sort = Literal["submitted", "changed", "name", "user", "priority"]
Order = Literal["desc", "asc"]
KEYS: dict[str, list[Any]] = {
    "submitted": [runs.c.number],
    "changed": [runs.c.changed],
    "name": [runs.c.name, runs.c.number],
    "user": [users.c.name, runs.c.number],
    "priority": [runs.c.priority, runs.c.number],
}
MANY = 200  # users whose names a search may match


@dataclass(frozen=True)
class Wanted:
    """Which runs a list has, and in which order."""

    scope: Scope = "all"
    search: str = ""  # part of a name or an id, or the beginning of a user's name
    states: tuple[State, ...] = ()
    user: str | None = None
    project: str | None = None
    pool: str | None = None
    name: str | None = None
    sort: Sort = "submitted"
    order: Order = "desc"


def found(
    connection: Connection, principal: Principal, wanted: Wanted, cursor: str | None, limit: int
) -> tuple[list[Row], str | None]:
    """Returns the runs of a page that the user may see, and the cursor of the next page if there is one."""
    keys = KEYS[wanted.sort]
    statement = select(*keys, *([] if runs.c.number in keys else [runs.c.number])).where(
        *_conditions(connection, principal, wanted)
    )
    if wanted.sort == "user":
        statement = statement.join_from(users, runs, users.c.id == runs.c.user)
    numbers, after = page(connection, statement, keys, cursor, limit, newest=wanted.order == "desc")
    order = [row["number"] for row in numbers]
    by_number = {row.number: row for row in rows.numbered(connection, order)}
    return [by_number[number] for number in order if number in by_number], after


def latest(connection: Connection, user: str, states: tuple[State, ...], sort: Sort, limit: int) -> list[Row]:
    """Returns the newest runs of a user in some states: as many of each state as an index gives at once, then the first."""
    found = [row for state in states for row in connection.execute(newest(user, state, sort, limit)).all()]
    order = [int(row.number) for row in sorted(found, key=lambda row: tuple(row), reverse=True)[:limit]]
    by_number = {row.number: row for row in rows.numbered(connection, order)}
    return [by_number[number] for number in order if number in by_number]


def newest(user: str, state: State, sort: Sort, limit: int) -> Select[Any]:
    """The numbers of the newest runs of a user in one state: with several, databases would sort all runs of the user."""
    keys = KEYS[sort]
    statement = select(*keys, *([] if runs.c.number in keys else [runs.c.number]))
    statement = statement.where(runs.c.user == user, runs.c.state == state.value, runs.c.removed.is_(None))
    return statement.order_by(*(key.desc() for key in keys)).limit(limit)


def _conditions(connection: Connection, principal: Principal, wanted: Wanted) -> list[ColumnElement[bool]]:
    found = [runs.c.removed.is_(None), *_scope(principal, wanted.scope)]
    if wanted.user is not None:
        found.append(runs.c.user == _id_of(connection, users, wanted.user))
    if wanted.project is not None:
        found.append(runs.c.project == _id_of(connection, projects, wanted.project))
    if wanted.pool is not None:
        found.append(runs.c.pool == wanted.pool)
    if wanted.name is not None:
        found.append(runs.c.name == wanted.name)
    if wanted.states:
        found.append(runs.c.state.in_([state.value for state in wanted.states]))
    if wanted.search:
        found.append(_matches(connection, wanted.search))
    return found


def _scope(principal: Principal, scope: Scope) -> list[ColumnElement[bool]]:
    if scope == "mine":
        return [runs.c.user == principal.user_id]
    # In words that no index answers: else databases gather all runs of all projects and sort them, for the first few.
    shared = func.coalesce(runs.c.project, "").in_(sorted(principal.projects))
    if scope == "projects":
        return [shared] if principal.projects else [false()]
    return [] if principal.role == "administrator" else [or_(func.coalesce(runs.c.user, "") == principal.user_id, shared)]


def _id_of(connection: Connection, table: Any, name: str) -> str:
    """The id of a name; one that nothing has where there is none."""
    found: str | None = connection.scalar(select(table.c.id).where(table.c.name == name))
    return found or ""


def _matches(connection: Connection, search: str) -> ColumnElement[bool]:
    text = search.lower()
    named: Select[Any] = select(users.c.id).where(func.lower(users.c.name).startswith(text, autoescape=True)).limit(MANY)
    found = list(connection.scalars(named))
    matching = func.lower(runs.c.id).contains(text, autoescape=True)  # an id begins with the name
    return or_(matching, func.coalesce(runs.c.user, "").in_(found)) if found else matching

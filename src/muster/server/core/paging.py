"""Pages of lists: a cursor says behind which row the next page begins, so that rows that come and go shift nothing."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Select, tuple_

from muster.tester.errors import Denied

BAD_CURSOR = "this cursor was not given by this list; begin without one"


def page(
    connection: Connection,
    statement: Select[Any],
    keys: Sequence[Column[Any]],
    cursor: str | None,
    limit: int,
    newest: bool = False,
) -> tuple[list[dict[str, Any]], str | None]:
    """Returns rows in the order of `keys`, which are unique together, and the cursor of the next page if there is one."""
    if cursor is not None:
        values = tuple_(*_decoded(cursor, keys))
        statement = statement.where(tuple_(*keys) < values if newest else tuple_(*keys) > values)
    order = [key.desc() if newest else key.asc() for key in keys]
    rows = connection.execute(statement.order_by(*order).limit(limit + 1)).mappings().all()
    shown = [dict(row) for row in rows[:limit]]
    return shown, _encoded([shown[-1][key.name] for key in keys]) if len(rows) > limit else None


def _encoded(values: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _decoded(cursor: str, keys: Sequence[Column[Any]]) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        kinds = [key.type.python_type for key in keys]
        right = isinstance(values, list) and [type(value) for value in values] == kinds
        if right and "\\u0000" not in json.dumps(values):
            return [min(value, 2**31 - 1) if type(value) is int else value for value in values]
    except (ValueError, RecursionError):
        pass
    raise Denied(400, BAD_CURSOR)

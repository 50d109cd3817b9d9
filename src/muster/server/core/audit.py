"""The audit log: who changed what, from where, with what was before and after. Written in the transaction of the change."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from muster.server.core.access import Caller
from muster.server.core.tables import audit

Values = Mapping[str, Any]
WORD = 200  # characters of a text in a list
SERVER = "(server)"  # who acts where nobody is logged in; no user can have this name
_INSERT = insert(audit)  # made once, it is compiled once: each change executes it


@dataclass(frozen=True)
class AuditEntry:
    """One change. `before` and `after` hold what differs and never a secret."""

    id: int
    at: float
    who: str
    what: str
    target: str
    address: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def record(
    connection: Connection,
    caller: Caller | str | None,
    what: str,
    target: str,
    before: Values | None = None,
    after: Values | None = None,
) -> None:
    """Adds an entry; of `before` and `after` only what differs is kept. A text names what acts for nobody."""
    if before is not None and after is not None:
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        before = {name: before.get(name) for name in changed}
        after = {name: after.get(name) for name in changed}
    who, address = (caller.name, caller.address) if isinstance(caller, Caller) else (caller or SERVER, "")
    before, after = _bounded(before), _bounded(after)
    row = {"at": time.time(), "who": who, "what": what, "target": target, "address": address, "before": before, "after": after}
    connection.execute(_INSERT, row)


def _bounded(values: Values | None) -> Values | None:
    """The values with the long texts of their lists cut: the words of a command may be files."""
    if values is None:
        return None
    return {name: [_cut(each) for each in value] if isinstance(value, list) else value for name, value in values.items()}


def _cut(value: Any) -> Any:
    return f"{value[:WORD]}… ({len(value)} characters)" if isinstance(value, str) and len(value) > WORD else value


def entries(who: str | None = None, target: str | None = None) -> Select[Any]:
    """The statement that lists entries, of one who acted or of one target where given."""
    found = select(audit)
    if who is not None:
        found = found.where(audit.c.who == who)
    return found if target is None else found.where(audit.c.target == target)

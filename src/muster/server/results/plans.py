"""The plans that a tester holds."""

from __future__ import annotations

import sqlite3
import time

from muster.server.core.database import Database
from muster.tester.errors import Misused
from muster.tester.plan import Plan, checked

FIELDS = tuple(Plan.__dataclass_fields__)


class Plans:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, plan: Plan) -> None:
        values = [*vars(checked(plan)).values(), time.time()]
        statement = f"INSERT INTO plans ({', '.join(FIELDS)}, created) VALUES ({', '.join('?' * len(values))})"
        try:
            with self._database.writing() as connection:
                connection.execute(statement, values)
        except sqlite3.IntegrityError:
            raise Misused(f"there is a plan `{plan.test_id}` already; choose another test id") from None

    def all(self) -> list[Plan]:
        """The newest first."""
        with self._database.reading() as connection:
            return [_plan(row) for row in connection.execute("SELECT * FROM plans ORDER BY created DESC, rowid DESC")]

    def find(self, test_id: str) -> Plan | None:
        with self._database.reading() as connection:
            row = connection.execute("SELECT * FROM plans WHERE test_id = ?", (test_id,)).fetchone()
        return _plan(row) if row else None

    def get(self, test_id: str) -> Plan:
        plan = self.find(test_id)
        if plan is None:
            raise Misused(f"there is no plan `{test_id}`; `muster tester plan list` shows those that there are")
        return plan

    def remove(self, test_id: str) -> None:
        """Forgets a plan; results that answered it stay as they are."""
        self.get(test_id)
        with self._database.writing() as connection:
            connection.execute("DELETE FROM plans WHERE test_id = ?", (test_id,))


def _plan(row: sqlite3.Row) -> Plan:
    return Plan(**{field: row[field] for field in FIELDS})

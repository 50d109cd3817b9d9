"""The table of test plans."""

import sqlite3
import time

from muster.server.core.database import Database, insert
from muster.tester.errors import Misused
from muster.tester.protocol import Plan


class Plans:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, plan: Plan) -> None:
        plan.check()
        try:
            with self._database.writing() as connection:
                insert(connection, "plans", {**plan.to_json(), "created": time.time()})
        except sqlite3.IntegrityError:
            raise Misused(f"there is a plan `{plan.test_id}` already; choose another test id") from None

    def all(self) -> list[Plan]:
        """All plans, the newest first."""
        rows = self._database.select("SELECT * FROM plans ORDER BY created DESC, rowid DESC")
        return [Plan.from_json(dict(row)) for row in rows]

    def find(self, test_id: str) -> Plan | None:
        rows = self._database.select("SELECT * FROM plans WHERE test_id = ?", test_id)
        return Plan.from_json(dict(rows[0])) if rows else None

    def get(self, test_id: str) -> Plan:
        """Raises Misused where there is no such plan."""
        plan = self.find(test_id)
        if plan is None:
            raise Misused(f"there is no plan `{test_id}`; `muster tester plan list` shows those that there are")
        return plan

    def remove(self, test_id: str) -> None:
        """Deletes a plan; results that answered it stay."""
        self.get(test_id)
        with self._database.writing() as connection:
            connection.execute("DELETE FROM plans WHERE test_id = ?", (test_id,))

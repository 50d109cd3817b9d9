"""Test plans: kept in the server's database, made and removed by whoever administers it."""

import time

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.database import Database
from muster.server.results.tables import plans
from muster.tester.errors import Denied
from muster.tester.protocol import NAME, Plan


class Plans:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, plan: Plan, caller: Caller | None = None) -> None:
        """Stores a plan; raises Misused for names that do not fit, and Denied where its test id is taken."""
        plan.check()
        try:
            with self._database.begin() as connection:
                connection.execute(insert(plans).values(**plan.to_json(), created=time.time()))
                audit.record(connection, caller, "plan.create", plan.test_id, after=plan.to_json())
        except IntegrityError:
            raise Denied(409, f"there is a plan `{plan.test_id}` already; choose another test id") from None

    def all(self) -> list[Plan]:
        """All plans, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(plans).order_by(plans.c.created.desc(), plans.c.test_id.desc())).mappings().all()
        return [Plan.from_json(dict(row)) for row in rows]

    def find(self, test_id: str) -> Plan | None:
        if not NAME.fullmatch(test_id):
            return None
        with self._database.read() as connection:
            row = connection.execute(select(plans).where(plans.c.test_id == test_id)).mappings().first()
        return Plan.from_json(dict(row)) if row else None

    def get(self, test_id: str) -> Plan:
        """Raises Denied where there is no such plan."""
        plan = self.find(test_id)
        if plan is None:
            raise Denied(404, f"there is no plan `{test_id[:64]}`; `muster tester plan list` shows those that there are")
        return plan

    def remove(self, test_id: str, caller: Caller | None = None) -> None:
        """Deletes a plan; results that answered it stay."""
        plan = self.get(test_id)
        with self._database.begin() as connection:
            connection.execute(delete(plans).where(plans.c.test_id == test_id))
            audit.record(connection, caller, "plan.delete", test_id, before=plan.to_json())

"""Quotas as bars: how many devices of a kind a project, or a user in it, may hold and holds."""

from dataclasses import dataclass

from sqlalchemy import select

from muster.server.core.access import Caller
from muster.server.core.authentication import Context
from muster.server.core.tables import projects
from muster.server.runs.api.queue import quotas
from muster.server.runs.api.queue.quotas import QuotaUse
from muster.server.runs.platform import Platform

MOST = 20  # projects on the start page


@dataclass(frozen=True)
class Bar:
    project: str
    quota: QuotaUse

    @property
    def share(self) -> float:
        """What is used, of 100."""
        return 100.0 if not self.quota.devices else round(min(100.0, 100 * self.quota.used / self.quota.devices), 2)

    @property
    def full(self) -> bool:
        return self.quota.used >= self.quota.devices


def of_project(context: Context, platform: Platform, caller: Caller, name: str) -> list[Bar]:
    return [Bar(name, one) for one in quotas.list_quotas(context, platform, caller, name)]


def of_viewer(context: Context, platform: Platform, caller: Caller) -> list[Bar]:
    """Those of the viewer's projects, and of the viewer in them."""
    wanted = select(projects.c.name).where(projects.c.id.in_(list(caller.principal.projects))).order_by(projects.c.name)
    with context.database.read() as connection:
        names = list(connection.scalars(wanted.limit(MOST)))
    found = [bar for name in names for bar in of_project(context, platform, caller, name)]
    return [bar for bar in found if bar.quota.user in (None, caller.name)]

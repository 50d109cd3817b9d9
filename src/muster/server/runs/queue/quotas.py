"""Quotas: how many devices of a kind the runs of a project, or of one user in it, may hold at once.

They hold for runs that cannot be preempted, over all pools.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts.projects import Project
from muster.server.core.accounts.users import User
from muster.server.core.database import upsert
from muster.server.core.tables import projects, users
from muster.server.runs.tables import quotas

KINDS = ("cpu", "nvidia", "ascend")


@dataclass(frozen=True)
class Quota:
    user: str | None  # the name; None for the whole project
    kind: str
    devices: int


def of_project(connection: Connection, project: Project) -> list[Quota]:
    wanted = select(users.c.name.label("user"), quotas.c.kind, quotas.c.devices)
    wanted = wanted.select_from(quotas.outerjoin(users, users.c.id == quotas.c.user)).where(quotas.c.project == project.id)
    rows = connection.execute(wanted.order_by(quotas.c.user, quotas.c.kind)).mappings()
    return [Quota(**row) for row in rows]


def everything(connection: Connection) -> dict[tuple[str, str, str], int]:
    """Returns all quotas by the names of project and user (`""` for the whole project) and by kind."""
    wanted = select(projects.c.name.label("project"), users.c.name.label("user"), quotas.c.kind, quotas.c.devices)
    joined = quotas.join(projects, projects.c.id == quotas.c.project).outerjoin(users, users.c.id == quotas.c.user)
    return {(row.project, row.user or "", row.kind): row.devices for row in connection.execute(wanted.select_from(joined))}


def set_quota(
    connection: Connection, caller: Caller, project: Project, user: User | None, kind: str, devices: int | None
) -> None:
    """Sets a quota, or takes it away with None."""
    key = {"project": project.id, "user": user.id if user else "", "kind": kind}
    held = (quotas.c.project == key["project"], quotas.c.user == key["user"], quotas.c.kind == kind)
    before = connection.scalar(select(quotas.c.devices).where(*held))
    if before == devices:
        return
    if devices is None:
        connection.execute(delete(quotas).where(*held))
    else:
        upsert(connection, quotas, {**key, "devices": devices}, lambda new: {"devices": new.devices})
    target = f"{project.name}/{user.name}" if user else project.name
    audit.record(connection, caller, "quota.set", target, {kind: before}, {kind: devices})

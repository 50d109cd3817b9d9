"""Projects: their members with roles, and the defaults of their jobs."""

import time
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from muster.server.core import audit
from muster.server.core.access import Caller, Principal
from muster.server.core.accounts.users import User
from muster.server.core.database import locking, upsert
from muster.server.core.tables import members, new_id, projects, users
from muster.tester.errors import Denied

NO_PROJECT = "there is no such project"
NO_MEMBER = "this user is not a member of the project"


@dataclass(frozen=True)
class Project:
    """A virtual cluster: people who share devices, buckets and runs."""

    id: str
    name: str
    created: float
    defaults: dict[str, Any]
    settings: dict[str, Any] | None = None  # of the queue


@dataclass(frozen=True)
class Member:
    user: str  # the id
    name: str
    role: str


def listed(principal: Principal, all_projects: bool) -> Select[Any]:
    """The statement that lists the projects of a user, or all of them."""
    return select(projects) if all_projects else select(projects).where(projects.c.id.in_(list(principal.projects)))


def find(connection: Connection, key: str) -> Project | None:
    """Returns the project with this name or id, locked against changes by others until the transaction ends."""
    wanted = select(projects).where(or_(projects.c.name == key, projects.c.id == key))
    row = connection.execute(locking(connection, wanted)).mappings().first()
    return Project(**row) if row else None


def create(connection: Connection, caller: Caller | None, name: str, defaults: dict[str, Any]) -> Project:
    project = Project(new_id("p"), name, time.time(), defaults)
    try:
        with connection.begin_nested():
            connection.execute(insert(projects).values(vars(project)))
    except IntegrityError:
        raise _taken(name) from None
    audit.record(connection, caller, "project.create", name, after={"name": name, "defaults": defaults})
    return project


def change(
    connection: Connection,
    caller: Caller,
    project: Project,
    name: str | None,
    defaults: dict[str, Any] | None,
    settings: dict[str, Any] | None = None,
) -> Project:
    before = {"name": project.name, "defaults": project.defaults, "settings": project.settings}
    after: dict[str, Any] = {
        "name": name or project.name,
        "defaults": project.defaults if defaults is None else defaults,
        "settings": project.settings if settings is None else settings,
    }
    if after == before:
        return project
    try:
        with connection.begin_nested():
            connection.execute(update(projects).where(projects.c.id == project.id).values(after))
    except IntegrityError:
        raise _taken(str(name)) from None
    audit.record(connection, caller, "project.change", project.name, before, after)
    return replace(project, **after)


def remove(connection: Connection, caller: Caller, project: Project) -> None:
    """Deletes a project that owns nothing any more."""
    try:
        with connection.begin_nested():
            connection.execute(delete(members).where(members.c.project == project.id))
            connection.execute(delete(projects).where(projects.c.id == project.id))
    except IntegrityError:
        raise Denied(409, "the project still owns buckets, runs, templates or webhooks; delete them first") from None
    audit.record(connection, caller, "project.delete", project.name, before={"defaults": project.defaults})


def members_of(project: Project) -> Select[Any]:
    columns = (users.c.id.label("user"), users.c.name, members.c.role)
    return select(*columns).select_from(members.join(users)).where(members.c.project == project.id)


def role_of(connection: Connection, project: Project, user: User) -> str | None:
    role: str | None = connection.scalar(
        select(members.c.role).where(members.c.project == project.id, members.c.user == user.id)
    )
    return role


def set_member(connection: Connection, caller: Caller, project: Project, user: User, role: str) -> Member:
    """Adds a member, or changes the role of one."""
    before = role_of(connection, project, user)
    if before != role:
        row = {"project": project.id, "user": user.id, "role": role}
        upsert(connection, members, row, lambda new: {"role": new.role})
        audit.record(connection, caller, "member.set", f"{project.name}/{user.name}", {"role": before}, {"role": role})
    return Member(user.id, user.name, role)


def remove_member(connection: Connection, caller: Caller, project: Project, user: User) -> None:
    before = role_of(connection, project, user)
    if before is None:
        raise Denied(404, NO_MEMBER)
    connection.execute(delete(members).where(members.c.project == project.id, members.c.user == user.id))
    audit.record(connection, caller, "member.remove", f"{project.name}/{user.name}", before={"role": before})


_ROLES = select(members.c.project, members.c.role).where(members.c.user == bindparam("user"))


def roles(connection: Connection, user_id: str) -> dict[str, str]:
    """The user's role in each project, by id."""
    return {row.project: row.role for row in connection.execute(_ROLES, {"user": user_id})}


def _taken(name: str) -> Denied:
    return Denied(409, f"there is a project `{name}` already; choose another name")

"""Templates: job files under names, for their owner, a project, or everybody."""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, case, delete, func, insert, or_, select, update

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, Principal, demand, may
from muster.server.core.database import locking, one_at_a_time
from muster.server.core.tables import new_id, projects, users
from muster.server.runs.tables import templates as table
from muster.tester.errors import Denied

NO_TEMPLATE = "there is no such template"
OWN, PROJECT, ALL = "own", "project", "all"
MOST = 500  # templates of one user, of one project, of all
LOCK = 0x6D757374  # of those who write templates: names are unique
SHOWN_FIRST = case({OWN: 0, PROJECT: 1, ALL: 2}, value=table.c.scope)
COLUMNS = (*table.columns, users.c.name.label("owner_name"), projects.c.name.label("project_name"))


@dataclass(frozen=True)
class Template:
    """A job file under a name, with its code if it has some."""

    id: str
    name: str
    scope: str
    owner: str  # the name of the user who made it
    project: str | None  # the name
    description: str
    job: str
    code: str  # the digest; "" for none
    created: float
    changed: float


@dataclass(frozen=True)
class Found:
    """A template as the database has it, with the ids that the API does not show."""

    template: Template
    owner_id: str
    project_id: str | None

    @property
    def target(self) -> Owned:
        """Whose it is, as the rules of access see it."""
        return target(self.template.scope, self.owner_id, self.project_id)


def target(scope: str, owner: str, project: str | None) -> Owned:
    return Owned(owner if scope == OWN else None, project if scope == PROJECT else None)


def _selected() -> Select[Any]:
    return select(*COLUMNS).join(users, table.c.owner == users.c.id).outerjoin(projects, table.c.project == projects.c.id)


def visible(principal: Principal) -> Select[Any]:
    """The statement that lists the templates that a user may see."""
    of_project = table.c.scope == PROJECT
    if not may(principal, "projects.read"):  # not that of an administrator
        of_project &= table.c.project.in_(list(principal.projects))
    own = (table.c.scope == OWN) & (table.c.owner == principal.user_id)
    return _selected().where(or_(own, of_project, table.c.scope == ALL))


def of(row: Any) -> Found:
    fields = dict(row)
    owner, project = fields.pop("owner"), fields.pop("project")
    names = {"owner": fields.pop("owner_name"), "project": fields.pop("project_name")}
    return Found(Template(**fields, **names), owner, project)


def find(connection: Connection, principal: Principal, key: str, project: str | None = None) -> Found:
    """Returns the template of an id or a name: the user's own one, that of the project (where one is named), that of all."""
    wanted = visible(principal).where(or_(table.c.id == key, table.c.name == key))
    if project is not None:
        wanted = wanted.where(or_(table.c.scope != PROJECT, projects.c.name == project, projects.c.id == project))
    rows = connection.execute(wanted.order_by(SHOWN_FIRST).limit(3)).mappings().all()
    found = [of(row) for row in rows]
    exact = [one for one in found if one.template.id == key]
    if exact or not found:
        if not exact:
            raise Denied(404, NO_TEMPLATE)
        return exact[0]
    if len(found) > 1 and found[0].template.scope == found[1].template.scope == PROJECT:
        raise Denied(400, f"several of your projects have a template `{key}`; name its project, or its id")
    return found[0]


def create(connection: Connection, caller: Caller, given: Template, project_id: str | None) -> Template:
    """Keeps a template of the caller's. Raises Denied where there is one of this name."""
    made = replace(given, id=new_id("tm"), owner=caller.name, created=time.time(), changed=time.time())
    scope = target(made.scope, caller.principal.user_id, project_id)
    need_rights(caller, scope)
    one_at_a_time(connection, LOCK)
    _need_free(connection, scope, made.name)
    if int(connection.scalar(select(func.count()).select_from(table).where(*_of(scope))) or 0) >= MOST:
        raise Denied(409, f"there are {MOST} templates already; delete some first")
    row = {**asdict(made), "owner": caller.principal.user_id, "project": project_id}
    connection.execute(insert(table).values(row))
    audit.record(connection, caller, "template.create", made.id, after=_audited(made))
    return made


def change(connection: Connection, caller: Caller, found: Found, **changes: str) -> Template:
    """Changes name, job, code or description of a template that was read in this transaction."""
    before = found.template
    after = replace(before, **dict[str, Any](changes))
    if after == before:
        return before
    if after.name != before.name:
        one_at_a_time(connection, LOCK)
        _need_free(connection, found.target, after.name)
    after = replace(after, changed=time.time())
    values = {**changes, "changed": after.changed}
    connection.execute(update(table).where(table.c.id == before.id).values(values))
    audit.record(connection, caller, "template.change", before.id, _audited(before), _audited(after))
    return after


def remove(connection: Connection, caller: Caller, found: Found) -> None:
    connection.execute(delete(table).where(table.c.id == found.template.id))
    audit.record(connection, caller, "template.delete", found.template.id, before=_audited(found.template))


def changeable(connection: Connection, caller: Caller, key: str) -> Found:
    """Returns a template that the caller may change, locked until the transaction ends. Raises Denied."""
    found = find(connection, caller.principal, key)
    need_rights(caller, found.target)
    connection.execute(locking(connection, select(table.c.id).where(table.c.id == found.template.id)))
    return find(connection, caller.principal, found.template.id)  # as it is now that nobody else changes it


def need_rights(caller: Caller, whose: Owned) -> None:
    """Raises Denied unless the caller may write templates of this user, this project, or of all."""
    if whose == Owned(None, None):
        demand(caller.principal, "templates.publish")
    else:
        demand(caller.principal, "templates.change", whose, NO_TEMPLATE)


def need_of_project(connection: Connection, project: str, name: str) -> None:
    """Raises Denied unless the project, or everybody, has a template of this name."""
    of_project = (table.c.scope == PROJECT) & (table.c.project == project)
    wanted = select(table.c.id).where(table.c.name == name, or_(of_project, table.c.scope == ALL)).limit(1)
    if connection.scalar(wanted) is None:
        raise Denied(400, f"`template`: neither the project nor everybody has a template `{name}`; save one first")


def _need_free(connection: Connection, scope: Owned, name: str) -> None:
    if connection.scalar(select(table.c.id).where(*_of(scope), table.c.name == name)) is not None:
        raise Denied(409, f"there is a template `{name}` already; change that one, or choose another name")


def _of(scope: Owned) -> tuple[Any, ...]:
    if scope.owner is not None:
        return (table.c.scope == OWN, table.c.owner == scope.owner)
    if scope.project is not None:
        return (table.c.scope == PROJECT, table.c.project == scope.project)
    return (table.c.scope == ALL,)


def _audited(template: Template) -> dict[str, Any]:
    shown = {name: getattr(template, name) for name in ("name", "scope", "project", "code", "description")}
    return {**shown, "job": template.job[:2000]}

"""Projects and their members."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field
from sqlalchemy import Connection

from muster.server.core import tables
from muster.server.core.access import Caller, demand, may
from muster.server.core.accounts import project_settings, projects, users
from muster.server.core.accounts.projects import NO_PROJECT, Member, Project
from muster.server.core.api.models import (
    MAX_DEFAULTS,
    PREFIX,
    UNCHANGED,
    AccountName,
    Body,
    Cursor,
    IfMatch,
    IfNoneMatch,
    Key,
    Limit,
    ProjectRole,
    check_match,
    errors,
    tagged,
)
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.runs.templates import templates
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/projects")


def _small(defaults: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(defaults)
    if len(text) > MAX_DEFAULTS:
        raise ValueError(f"take more than {MAX_DEFAULTS} bytes as JSON")
    if "\\u0000" in text or (any(f"\\ud{letter}" in text.lower() for letter in "89abcdef") and not _is_unicode(defaults)):
        raise ValueError("hold characters that cannot be shown")
    return defaults


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


Defaults = Annotated[dict[str, Any], AfterValidator(_small)]


class NewProject(Body):
    name: AccountName
    defaults: Defaults = Field(default_factory=dict, description="Fields of job files for jobs that do not have them.")


class ProjectChange(Body):
    name: AccountName | None = None
    defaults: Defaults | None = None
    settings: Defaults | None = Field(None, description="Of its runs; see docs/projects.md. They are replaced as a whole.")


class Membership(Body):
    role: ProjectRole


@dataclass(frozen=True)
class ProjectPage:
    items: list[Project]
    next: str | None


@dataclass(frozen=True)
class MemberPage:
    items: list[Member]
    next: str | None


def allowed_project(connection: Connection, caller: Caller, key: str, action: str) -> Project:
    """Returns a project that the caller may act on; raises Denied as if there were none where it may not be seen."""
    project = projects.find(connection, key)
    if project is None:
        raise Denied(404, NO_PROJECT)
    demand(caller.principal, action, project.id, NO_PROJECT)
    return project


@router.get("", responses=errors(401))
def list_projects(context: Context, caller: Asking, limit: Limit = 100, cursor: Cursor = None) -> ProjectPage:
    """The projects that the caller may see, by name."""
    everything = may(caller.principal, "projects.read")
    with context.database.read() as connection:
        found = projects.listed(caller.principal, everything)
        rows, after = page(connection, found, [tables.projects.c.name], cursor, limit)
    return ProjectPage([Project(**row) for row in rows], after)


@router.post("", responses=errors(401, 403, 409), status_code=201)
def create_project(response: Response, context: Context, caller: Asking, given: NewProject) -> Project:
    """Makes a project."""
    demand(caller.principal, "projects.create")
    with context.database.begin() as connection:
        return tagged(response, projects.create(connection, caller, given.name, given.defaults))


@router.get("/{project}", responses={**errors(401, 404), **UNCHANGED})
def get_project(
    response: Response, context: Context, caller: Asking, project: Key, if_none_match: IfNoneMatch = None
) -> Project:
    """One project, with an ETag."""
    with context.database.read() as connection:
        return tagged(response, allowed_project(connection, caller, project, "projects.read"), if_none_match)


@router.patch("/{project}", responses=errors(401, 403, 404, 409, 412))
def change_project(
    response: Response, context: Context, caller: Asking, project: Key, given: ProjectChange, if_match: IfMatch = None
) -> Project:
    """Changes the defaults or the settings, which are replaced as a whole, and for administrators the name."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "projects.change")
        if given.name not in (None, found.name):
            demand(caller.principal, "projects.rename", found.id, NO_PROJECT)
        check_match(if_match, found)
        settings = None if given.settings is None else _valid(connection, caller, found, given.settings)
        return tagged(response, projects.change(connection, caller, found, given.name, given.defaults, settings))


def _valid(connection: Connection, caller: Caller, project: Project, given: dict[str, Any]) -> dict[str, Any]:
    """Returns settings that can be kept. Raises Denied for what is wrong with them, and for what only administrators set."""
    before, after = project.settings or {}, project_settings.without_empty(given)
    values = project_settings.read(after)
    if any(before.get(name) != after.get(name) for name in project_settings.BY_ADMINISTRATORS):
        demand(caller.principal, "projects.weigh")
    if values.template and values.template != before.get("template"):
        templates.need_of_project(connection, project.id, values.template)
    return after


@router.delete("/{project}", responses=errors(401, 403, 404, 409, 412), status_code=204)
def delete_project(context: Context, caller: Asking, project: Key, if_match: IfMatch = None) -> None:
    """Deletes a project that owns nothing."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "projects.delete")
        check_match(if_match, found)
        projects.remove(connection, caller, found)


@router.get("/{project}/members", responses=errors(401, 404))
def list_members(context: Context, caller: Asking, project: Key, limit: Limit = 100, cursor: Cursor = None) -> MemberPage:
    """The members by name."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "projects.read")
        rows, after = page(connection, projects.members_of(found), [tables.users.c.name], cursor, limit)
    return MemberPage([Member(**row) for row in rows], after)


@router.put("/{project}/members/{user}", responses=errors(401, 403, 404))
def set_member(context: Context, caller: Asking, project: Key, user: Key, given: Membership) -> Member:
    """Adds a member, or changes the role of one."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "projects.change")
        return projects.set_member(connection, caller, found, users.get(connection, user), given.role)


@router.delete("/{project}/members/{user}", responses=errors(401, 403, 404), status_code=204)
def remove_member(context: Context, caller: Asking, project: Key, user: Key) -> None:
    """Removes a member."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "projects.change")
        projects.remove_member(connection, caller, found, users.get(connection, user))

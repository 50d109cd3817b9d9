"""Routes of templates: list, look at, save, change, delete."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field

from muster.server.core.access import demand
from muster.server.core.api.models import (
    PREFIX,
    UNCHANGED,
    Body,
    Cursor,
    Filter,
    IfMatch,
    IfNoneMatch,
    Label,
    Limit,
    check_match,
    errors,
    tagged,
)
from muster.server.core.api.projects import allowed_project
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.core.tables import projects
from muster.server.runs import rows
from muster.server.runs.api.code import Code
from muster.server.runs.api.models import Digest, JobText, Shared, TemplateName, Text
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row
from muster.server.runs.tables import templates as table
from muster.server.runs.templates import job_text, templates
from muster.server.runs.templates.templates import ALL, PROJECT, Found, Template
from muster.tester.errors import Denied
from muster.tester.protocol import NAME

router = APIRouter(prefix=PREFIX + "/templates")
TemplateKey = Annotated[str, Path(pattern=f"^{NAME.pattern}$", description="A name or an id.")]
Description = Annotated[Text, Field(max_length=500)]
RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$", description="Whose job and code it takes.")]
ONE_JOB = "a template has a job file or the job of a run; send one of `job` and `run`"


class NewTemplate(Body):
    name: TemplateName
    scope: Literal["own", "project", "all"] = "own"
    project: Label | None = Field(None, description="With the scope `project`.")
    job: JobText | None = None
    code: Digest | None = Field(None, description="Of POST /code; null for none.")
    run: RunName | None = None
    description: Description = ""


class TemplateChange(Body):
    name: TemplateName | None = None
    job: JobText | None = None
    code: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$", description="Empty for none.")] | None = None
    run: RunName | None = None
    description: Description | None = None


@dataclass(frozen=True)
class TemplatePage:
    items: list[Template]
    next: str | None


@router.get("", responses=errors(401))
def list_templates(
    context: Context, caller: Asking, project: Filter = None, limit: Limit = 100, cursor: Cursor = None
) -> TemplatePage:
    """The templates that the caller may see, by name; with `project` those of that project alone."""
    wanted = templates.visible(caller.principal)
    if project is not None:
        wanted = wanted.where(table.c.scope == PROJECT, projects.c.name == project)
    with context.database.read() as connection:
        found, after = page(connection, wanted, [table.c.name, table.c.id], cursor, limit)
    return TemplatePage([templates.of(row).template for row in found], after)


@router.post("", responses=errors(401, 403, 404, 409), status_code=201)
def save_template(response: Response, context: Context, platform: Shared, caller: Asking, given: NewTemplate) -> Template:
    """Keeps a job file, or the job of a run, under a name."""
    if (given.job is None) == (given.run is None) or (given.run is not None and given.code is not None):
        raise Denied(400, ONE_JOB)
    if (given.scope == PROJECT) != (given.project is not None):
        raise Denied(400, "`project` goes with the scope `project`, which needs it")
    if given.scope == ALL:
        demand(caller.principal, "templates.publish")
    project_id, project_name = _project(context, caller, given.project) if given.project else (None, None)
    job, code = _of_run(context, platform, caller, given.run) if given.run else (given.job or "", given.code or "")
    job_text.check(job, f"{given.name}.yaml")
    if code and not given.run:
        _need_code(platform, caller.principal.user_id, code)
    new = Template("", given.name, given.scope, caller.name, project_name, given.description, job, code, 0.0, 0.0)
    with context.database.begin() as connection:
        return tagged(response, templates.create(connection, caller, new, project_id))


@router.get("/{template}", responses={**errors(401, 404), **UNCHANGED})
def get_template(
    response: Response,
    context: Context,
    caller: Asking,
    template: TemplateKey,
    project: Filter = None,
    if_none_match: IfNoneMatch = None,
) -> Template:
    """One template, with an ETag: the own one of a name, that of a project, or that of all."""
    with context.database.read() as connection:
        return tagged(response, templates.find(connection, caller.principal, template, project).template, if_none_match)


@router.patch("/{template}", responses=errors(401, 403, 404, 409, 412))
def change_template(
    response: Response,
    context: Context,
    platform: Shared,
    caller: Asking,
    template: TemplateKey,
    given: TemplateChange,
    if_match: IfMatch = None,
) -> Template:
    """Changes a template."""
    if given.run is not None and (given.job is not None or given.code is not None):
        raise Denied(400, ONE_JOB)
    changes: dict[str, Any] = {name: value for name, value in given.model_dump(exclude={"run"}).items() if value is not None}
    with context.database.read() as connection:
        found = templates.find(connection, caller.principal, template)
        templates.need_rights(caller, found.target)
    if given.run is not None:
        changes["job"], changes["code"] = _of_run(context, platform, caller, given.run)
    if "job" in changes:
        job_text.check(changes["job"], f"{given.name or found.template.name}.yaml")
    if changes.get("code"):
        _need_code(platform, caller.principal.user_id, changes["code"])
        platform.code.share(caller.principal.user_id, found.owner_id, changes["code"])
    with context.database.begin() as connection:
        found = templates.changeable(connection, caller, found.template.id)
        check_match(if_match, found.template)
        return tagged(response, templates.change(connection, caller, found, **changes))


@router.delete("/{template}", responses=errors(401, 403, 404, 412), status_code=204)
def delete_template(context: Context, caller: Asking, template: TemplateKey, if_match: IfMatch = None) -> None:
    """Deletes a template."""
    with context.database.begin() as connection:
        found = templates.changeable(connection, caller, template)
        check_match(if_match, found.template)
        templates.remove(connection, caller, found)


@router.post("/{template}/code", responses=errors(401, 403, 404, 409))
def take_template_code(context: Context, platform: Shared, caller: Asking, template: TemplateKey) -> Code:
    """Takes the code of a template for a job of the caller's."""
    demand(caller.principal, "code.send")
    code = used(context, platform, caller, template, None).template.code
    if not code:
        raise Denied(409, "the template has no code of its own")
    return Code(code, platform.code.missing(caller.principal.user_id, code))


def used(context: Context, platform: Platform, caller: Asking, key: str, project: str | None) -> Found:
    """Returns a template for a submission of the caller's, who gets its code. Raises Denied."""
    with context.database.read() as connection:
        found = templates.find(connection, caller.principal, key, project)
    if found.template.code:
        platform.code.share(found.owner_id, caller.principal.user_id, found.template.code)
    return found


def _project(context: Context, caller: Asking, key: str) -> tuple[str, str]:
    with context.database.read() as connection:
        project = allowed_project(connection, caller, key, "projects.read")
    templates.need_rights(caller, templates.target(PROJECT, "", project.id))
    return project.id, project.name


def _of_run(context: Context, platform: Platform, caller: Asking, run: str) -> tuple[str, str]:
    """The job and the code of a run, which whoever may see it may use."""
    with context.database.read() as connection:
        row: Row = rows.find(connection, caller.principal, run)
    if row.code:
        platform.code.share(row.user, caller.principal.user_id, row.code)
    return job_text.of_run(row), row.code


def _need_code(platform: Platform, user: str, code: str) -> None:
    if missing := platform.code.missing(user, code):
        raise Denied(409, f"{len(missing)} files of the code were not sent; send them with PUT /code/{code}")

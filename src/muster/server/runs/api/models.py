"""What requests and answers about runs are made of."""

from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Path, Query, Request
from pydantic import AfterValidator, Field

from muster.server.core.access import Owned, demand
from muster.server.core.api.models import Body, Label, etag, tags_of
from muster.server.core.authentication import Asking, Context
from muster.server.runs import rows
from muster.server.runs.checking import Submission
from muster.server.runs.platform import Platform
from muster.server.runs.rows import NO_RUN, Row
from muster.tester.errors import Denied
from muster.tester.protocol import NAME

RunKey = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$", description="An id, its unique beginning, or `last`.")
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
IdempotencyKey = Annotated[
    str | None, Header(pattern=r"^[!-~]{1,200}$", description="The same key gives the same run, however often it is sent.")
]


def _text(text: str) -> str:
    """Refuses what no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds halves of characters") from None
    if "\x00" in text:
        raise ValueError("holds a NUL")
    return text


Text = Annotated[str, AfterValidator(_text)]
Language = Annotated[
    Literal["en", "zh"], Query(description="Of the reasons for which runs wait, and of what is wrong with a job.")
]
Secrets = Annotated[dict[Text, Text], Field(max_length=100)]
Sets = Annotated[list[Text], Field(max_length=1000)]
JobText = Annotated[Text, Field(max_length=1 << 20, description="The job file: YAML, or JSON.")]
TemplateName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", description="Letters, digits, `.`, `_` or `-`.")]


class NewRun(Body):
    """A job as the job file has it, and what belongs to it."""

    job: JobText | None = None
    template: TemplateName | None = Field(None, description="In place of `job` and `code`: those of a template.")
    set: Sets = Field(default_factory=list, description="Overrides as `nodes=2`.")
    file: Label = Field("job.yaml", description="The name under which mistakes are reported.")
    code: Digest | None = Field(None, description="Of POST /code; null where the job names a URL.")
    project: Label | None = Field(None, description="Without it, the only project of the caller.")
    pool: Label | None = Field(None, description="Without it, that of the project.")
    secrets: Secrets = Field(default_factory=dict, description="Values of what `secrets` of the job names.")

    def submission(self, job: str, file: str, code: str | None) -> Submission:
        return Submission(job, tuple(self.set), file, code, self.project, self.pool, dict(self.secrets))


class Stop(Body):
    now: bool = Field(False, description="Without the job's grace.")
    reason: Annotated[Text, Field(max_length=200)] | None = None


class Rerun(Body):
    """A clone of a run: the same job, or what is to be different."""

    set: Sets = Field(default_factory=list)
    secrets: Secrets = Field(default_factory=dict)
    job: JobText | None = Field(None, description="Another job file; null for the job of the run.")
    code: Digest | None = Field(None, description="Other code, of POST /code; null for that of the run.")
    project: Label | None = Field(None, description="Another project than that of the run.")
    pool: Label | None = Field(None, description="Another pool.")

    @property
    def changes_more(self) -> bool:
        """True if it differs in more than overrides."""
        return any(given is not None for given in (self.job, self.code, self.project, self.pool))


async def platform_of(request: Request) -> Platform:
    found: Platform = request.app.state.platform
    return found


Shared = Annotated[Platform, Depends(platform_of)]


def readable(context: Context, caller: Asking, run: RunKey) -> Row:
    """The run that a path names, if the caller may see it."""
    with context.database.read() as connection:
        return rows.find(connection, caller.principal, run)


def changeable(context: Context, caller: Asking, run: RunKey) -> Row:
    """The same, if the caller may change it."""
    row = readable(context, caller, run)
    demand(caller.principal, "runs.change", Owned(row.user, row.project), NO_RUN)
    return row


def enterable(context: Context, caller: Asking, run: RunKey) -> Row:
    """The same, if the caller may enter it: run commands in it and reach what it serves."""
    row = readable(context, caller, run)
    demand(caller.principal, "runs.enter", Owned(row.user, row.project), NO_RUN)
    return row


Seen = Annotated[Row, Depends(readable)]
Changed = Annotated[Row, Depends(changeable)]
Entered = Annotated[Row, Depends(enterable)]


def run_tag(row: Row, shown: dict[str, Any]) -> str:
    """The ETag of a run: the number of its last change, and the version of what is shown, which others change, too."""
    return f'"{row.changed}-{etag(shown).strip(chr(34))}"'


def is_current(row: Row, if_match: str | None) -> bool:
    """True if a run has not been changed since the caller looked; its place in the queue may be another."""
    if if_match is None or if_match.strip() == "*":
        return True
    return str(row.changed) in [tag.strip('"').partition("-")[0] for tag in tags_of(if_match)]


def need_ended(row: Row) -> None:
    if row.stage != rows.ENDED:
        raise Denied(409, f"{row.id} has not ended; stop it first")

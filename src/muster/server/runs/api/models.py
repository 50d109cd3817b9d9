"""What requests and answers about runs are made of."""

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from pydantic import AfterValidator, Field

from muster.server.core.access import Owned, demand
from muster.server.core.api.models import Body, Label
from muster.server.core.authentication import Asking, Context
from muster.server.runs import rows
from muster.server.runs.checking import Submission
from muster.server.runs.platform import Platform
from muster.server.runs.rows import NO_RUN, Row
from muster.tester.errors import Denied

Run = dict[str, Any]  # as `muster ps --json` has it
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
Secrets = Annotated[dict[Text, Text], Field(max_length=100)]
Sets = Annotated[list[Text], Field(max_length=1000)]


class NewRun(Body):
    """A job as the job file has it, and what belongs to it."""

    job: Annotated[Text, Field(max_length=1 << 20, description="The job file: YAML, or JSON.")]
    set: Sets = Field(default_factory=list, description="Overrides as `nodes=2`.")
    file: Label = Field("job.yaml", description="The name under which mistakes are reported.")
    code: Digest | None = Field(None, description="Of POST /code; null where the job names a URL.")
    project: Label | None = Field(None, description="Without it, the only project of the caller.")
    pool: Label | None = Field(None, description="Without it, that of the project.")
    secrets: Secrets = Field(default_factory=dict, description="Values of what `secrets` of the job names.")

    def submission(self) -> Submission:
        return Submission(self.job, tuple(self.set), self.file, self.code, self.project, self.pool, dict(self.secrets))


class Stop(Body):
    now: bool = Field(False, description="Without the job's grace.")
    reason: Annotated[Text, Field(max_length=200)] | None = None


class Rerun(Body):
    set: Sets = Field(default_factory=list)
    secrets: Secrets = Field(default_factory=dict)


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


Seen = Annotated[Row, Depends(readable)]
Changed = Annotated[Row, Depends(changeable)]


def need_ended(row: Row) -> None:
    if row.stage != rows.ENDED:
        raise Denied(409, f"{row.id} has not ended; stop it first")

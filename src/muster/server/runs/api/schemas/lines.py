"""Lines of answers that are streams: each is one JSON object."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from muster.server.runs.api.schemas.runs import ShownRun

LINES = "application/x-ndjson"
LogName = Annotated[list[int | str], Field(min_length=3, max_length=3, description="Attempt, node and process.")]


COMPONENTS = "#/components/schemas/"
SHARED = ("ShownRun",)  # what other answers of the document have, too


class IdleLine(TypedDict):
    """Sent now and then, to show that the connection lives."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]


class RunLine(TypedDict):
    """A run whose state has changed."""

    run: ShownRun


class LogLine(TypedDict):
    """Output of a process; `offset` is where it ends."""

    log: LogName
    offset: int
    data: str  # Base64


class EndLine(TypedDict):
    """The last line: the run has ended."""

    end: ShownRun


class EventLine(TypedDict):
    """A run that has changed, with the number of the change."""

    seq: int
    run: ShownRun


class SessionLine(TypedDict):
    """The first line: where input is sent to."""

    session: str


class OutputLine(TypedDict):
    data: str  # Base64


class ErrorLine(TypedDict):
    error: str  # Base64


class CodeLine(TypedDict):
    """The last line: the exit code, or minus the number of a signal."""

    code: int


class FoundLine(TypedDict):
    """A line of a log with a match, cut where it is long."""

    log: LogName
    offset: Annotated[int, Field(description="Of the line.")]
    at: Annotated[int, Field(description="Of the match.")]
    before: str
    match: str
    after: str


class HitLine(TypedDict):
    hit: FoundLine


class SearchedLine(TypedDict):
    """How many bytes were searched so far."""

    searched: int


class SearchEnd(TypedDict):
    complete: bool
    hits: int


class SearchEndLine(TypedDict):
    end: SearchEnd


Responses = dict[int | str, dict[str, Any]]


def stream(*kinds: Any) -> Responses:
    """The answer of a route, in the OpenAPI document: a stream of lines of these kinds."""
    found = [TypeAdapter(kind).json_schema(ref_template=COMPONENTS + "{model}", mode="serialization") for kind in kinds]
    lines = [_inlined(schema, schema.pop("$defs", {})) for schema in found]
    return {200: {"description": "One JSON object a line.", "content": {LINES: {"itemSchema": {"anyOf": lines}}}}}


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with what it refers to, but for what the document has anyway."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix(COMPONENTS)
    if name in definitions and name not in SHARED:
        return _inlined(definitions[name], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items()}


FOLLOWED = stream(RunLine, LogLine, EndLine, IdleLine)
EVENTS = stream(EventLine, IdleLine)
EXECUTED = stream(SessionLine, OutputLine, ErrorLine, CodeLine, IdleLine)
SEARCHED = stream(HitLine, SearchedLine, SearchEndLine)

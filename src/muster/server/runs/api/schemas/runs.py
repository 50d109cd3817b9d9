"""A run as `muster ps --json` and `muster show --json` have it, as a schema.

The schema describes and does not filter: what a run is, its record says, also where a rank has written odd things into it.
"""

from typing import Annotated, Any, Generic, NotRequired, TypeVar

from pydantic import Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from muster.records.run_view import Cause, State

T = TypeVar("T")


class DescribedBy(Generic[T]):
    """Gives a value the JSON schema of a type, and leaves the value as it is."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(self._kind).core_schema)


Time = Annotated[float | None, Field(description="Seconds since 1970.")]


class ResultValue(TypedDict):
    """A number that ranks recorded, over all of them."""

    value: float | None
    unit: str
    reason: Annotated[str | None, Field(description="Why there is no value.")]


class RunFailure(TypedDict):
    """Why a run or an attempt failed, with the end of the log."""

    kind: str
    node: int
    process: NotRequired[str | None]
    rank: NotRequired[int | None]
    code: NotRequired[int | None]
    signal: NotRequired[int | None]
    oom: NotRequired[bool]
    oom_before: NotRequired[bool]
    message: NotRequired[str | None]
    host: NotRequired[str | None]
    used: NotRequired[float | None]
    limit: NotRequired[float | None]
    event: NotRequired[str]
    attempt: NotRequired[int]
    time: NotRequired[Time]
    log: str | None
    exception: str
    tail: list[str]
    sentence: str
    others: Annotated[list[str], Field(description="The other distinct causes.")]


class RunAttempt(TypedDict):
    """An attempt of a run."""

    attempt: int
    state: State
    reason: str
    cause: Cause | None
    started: Time
    ended: Time
    failure: RunFailure | None


class RunNode(TypedDict):
    """A node of an attempt, as its agent reported it."""

    node: int
    state: Annotated[str, Field(description="missing, up or ended")]
    host: Any
    address: Any
    device: Any
    devices: list[Any]
    agent: Any
    ended: Any
    dir: str


class RunProcess(TypedDict):
    """A process of an attempt; `rank` is null for those that are no ranks."""

    process: str
    rank: int | None
    node: int
    state: State
    code: int | None
    signal: int | None
    pid: int | None
    started: Time
    ended: Time
    log: str


class DetailedAttempt(RunAttempt):
    """An attempt with its nodes and processes."""

    nodes: list[RunNode]
    ranks: list[RunProcess]


class RunSubmission(TypedDict):
    """A batch job that replaced one which was ended for good."""

    handle: str
    reason: str
    attempt: Annotated[int, Field(description="The attempt after which it was made.")]
    time: float


class RunEndpoint(TypedDict):
    """An endpoint of a run, as it stands."""

    name: str
    kind: str
    node: int
    state: str
    port: int | None
    reason: str
    since: Time


class RunFields(TypedDict):
    run: str
    state: State
    phase: str
    reason: str
    dir: Annotated[str, Field(description="Its address on the server.")]
    result: dict[str, ResultValue] | None
    warnings: list[str]
    name: str
    framework: str | None
    nodes: int | None
    ranks: int | None
    up: Annotated[int, Field(description="Ranks that have started.")]
    attempt: int
    engine: str | None
    user: str
    created: Time
    started: Time
    ended: Time
    project: str
    pool: str
    priority: int
    preemptible: bool
    paused: bool
    preemptions: int
    pinned: bool
    position: Annotated[int | None, Field(description="In the queue of its pool, from 1; null once it has started.")]
    expected: Annotated[float | None, Field(description="Seconds until it starts, as far as that can be told.")]
    unread: NotRequired[Annotated[Any, Field(description="Which logs were not read for the result, and why.")]]


class ShownRun(RunFields):
    """A run as it stands, with what the server knows of it."""

    failure: NotRequired[Annotated[RunFailure | None, Field(description="Of a run that has ended.")]]
    attempts: NotRequired[Annotated[list[RunAttempt], Field(description="Of a run that has ended.")]]


class DetailedRun(RunFields):
    """A run with its attempts, nodes, processes and job."""

    failure: RunFailure | None
    attempts: list[DetailedAttempt]
    handle: Annotated[str | None, Field(description="The engine's, such as the number of its batch job.")]
    submissions: list[RunSubmission]
    job: Annotated[dict[str, Any] | None, Field(description="The job file; null where the record is damaged.")]
    endpoints: NotRequired[list[RunEndpoint]]


Run = Annotated[dict[str, Any], DescribedBy(ShownRun)]
RunDetails = Annotated[dict[str, Any], DescribedBy(DetailedRun)]

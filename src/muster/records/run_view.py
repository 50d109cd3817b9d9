"""How a run stands or ended, as data: states, causes, failures, attempts. Each has one reader and one writer of its JSON.

Ranks can write the files that these are read from. A reader raises ValueError for what Muster never writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Callable, TypeVar

from muster.dataclass import dataclass, field, fields, replace
from muster.records.untrusted import number, whole

T = TypeVar("T")
LATEST = 253402300799.0  # the last second that calendars know


class State(str, Enum):
    """The states of a run; those of attempts and processes are among them."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"  # its supervisor is gone
    DAMAGED = "damaged"  # its record cannot be read

    def __str__(self) -> str:
        return self.value

    @property
    def ended(self) -> bool:
        return self in ENDED


ENDED = (State.SUCCEEDED, State.FAILED, State.STOPPED, State.LOST, State.DAMAGED)


class Cause(str, Enum):
    """Why a gang was stopped, or an attempt failed."""

    FINISHED = "finished"
    FAILURE = "failure"  # of the program: the causes of one are the last of these
    STOP = "stop"
    ABANDONED = "abandoned"  # the command that followed the run is gone
    TERMINATED = "terminated"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    SILENT = "silent"
    LOST = "lost"
    RENDEZVOUS = "rendezvous"
    UNKNOWN = "unknown"
    EXIT = "exit"
    SIGNAL = "signal"
    OOM = "oom"
    SETUP = "setup"
    INPUT = "input"
    OUTPUT = "output"

    def __str__(self) -> str:
        return self.value

    @classmethod
    def read(cls, value: Any) -> Cause:
        """The cause of a name; one that this Muster does not know is unknown."""
        return next((cause for cause in cls if cause.value == value), cls.UNKNOWN)


def _reader(kind: type[T], words: str) -> Callable[[Any], T]:
    """A reader of values of one type."""

    def read(value: Any) -> T:
        if not isinstance(value, kind):
            raise _wrong(value, words)
        return value

    return read


mapping: Callable[[Any], dict[str, Any]] = _reader(dict, "an object")
text = _reader(str, "a text")
sequence: Callable[[Any], list[Any]] = _reader(list, "a list")


def moment(value: Any) -> float | None:
    """A time, which may be unknown."""
    if value is None:
        return None
    found: float = value
    if not 0 <= _number(value) <= LATEST:
        raise ValueError(f"{value} is no time")
    return found


def count(value: Any) -> int:
    found = whole(value)
    if found is None or not 0 <= found <= LATEST:
        raise _wrong(value, "a count")
    return found


def _number(value: Any) -> float:
    found = number(value)
    if found is None:
        raise _wrong(value, "a number")
    return found


def _wrong(value: Any, expected: str) -> ValueError:
    return ValueError(f"{type(value).__name__} instead of {expected}")


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """A reader of a value that may be null."""
    return lambda value: None if value is None else read(value)


def _each(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """A reader of a list."""
    return lambda value: tuple(map(read, sequence(value)))


def _key(read: Callable[[Any], Any], *default: Any) -> Any:
    """A field that is a key of the JSON object, with the function that reads its value."""
    return field(metadata={"read": read}, default=default[0]) if default else field(metadata={"read": read})


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {each.name: each.metadata["read"] for each in fields(kind) if each.metadata}


def _values(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(data.get(name)) for name, read in _readers(kind).items()}


def _to_json(record: Any) -> dict[str, Any]:
    return {name: _plain(getattr(record, name)) for name in _readers(record.__class__)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.to_json() if hasattr(value, "to_json") else value


@dataclass(frozen=True)
class Stop:
    """Why a run, or the gang of an attempt, has to stop, and how long its processes may take."""

    cause: Cause
    reason: str = ""
    grace: float = 0.0  # seconds from SIGTERM to SIGKILL
    hold: float = 0.0  # seconds for which nodes and devices are kept after that, for debugging

    def to_json(self) -> dict[str, Any]:
        hold = {"hold": self.hold} if self.hold else {}
        return {"cause": self.cause.value, "reason": self.reason, "grace": self.grace, **hold}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Stop:
        """Never raises: a rank that damages a request must not keep a run from being stopped."""
        grace, hold = (found if found > 0 else 0.0 for found in (number(data.get(name)) or 0.0 for name in ("grace", "hold")))
        return cls(Cause.read(data.get("cause")), str(data.get("reason", "")), grace, hold)  # NaN is not above 0


@dataclass(frozen=True)
class Failure:
    """A failure on a node, as its agent recorded it."""

    kind: str = _key(text)
    node: int = _key(count)
    process: str = _key(lambda value: text("" if value is None else value), "")
    rank: int = _key(lambda value: -1 if (found := whole(value)) is None else found, -1)
    code: int | None = _key(whole, None)
    signal: int | None = _key(whole, None)
    oom: bool = _key(bool, False)
    oom_before: bool = _key(bool, False)
    message: str = _key(lambda value: str(value or ""), "")
    host: str = _key(lambda value: str(value or ""), "")  # of the node, where the run's engine names it
    used: float = _key(lambda value: number(value) or 0.0, 0.0)
    limit: float = _key(lambda value: number(value) or 0.0, 0.0)
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Failure:
        return cls(**_values(cls, data), written=data)

    def to_json(self) -> dict[str, Any]:
        return dict(self.written)


@dataclass(frozen=True)
class Explanation:
    """A failure with the end of its log, in words, and the other distinct causes."""

    failure: Failure
    log: str | None = _key(optional(text))
    exception: str = _key(text)
    tail: tuple[str, ...] = _key(_each(text))
    sentence: str = _key(text, "")
    others: tuple[str, ...] = _key(_each(text), ())

    @classmethod
    def from_json(cls, data: Any) -> Explanation:
        return cls(Failure.from_json(mapping(data)), **_values(cls, data))

    def to_json(self) -> dict[str, Any]:
        return {**self.failure.to_json(), **_to_json(self)}


@dataclass(frozen=True)
class AttemptOutcome:
    """How an attempt ended, or stands: then it has no cause yet."""

    attempt: int = _key(count)
    state: State = _key(State)
    reason: str = _key(text)
    cause: Cause | None = _key(lambda value: Cause.read(text(value)))
    started: float | None = _key(moment, None)
    ended: float | None = _key(moment, None)
    failure: Explanation | None = _key(optional(Explanation.from_json), None)

    @classmethod
    def from_json(cls, data: Any) -> AttemptOutcome:
        return cls(**_values(cls, mapping(data)))

    @classmethod
    def from_shown(cls, data: Any) -> AttemptOutcome:
        """Reads an attempt as `muster show --json` has it: one that goes on has no cause."""
        going = mapping(data).get("cause") is None
        found = cls.from_json({**data, "cause": ""} if going else data)
        return replace(found, cause=None) if going else found

    def to_json(self) -> dict[str, Any]:
        return _to_json(self)


@dataclass(frozen=True)
class RunView:
    """A run as it stands; of one that has ended, its final record."""

    run: str = _key(text)
    state: State = _key(State)
    phase: str = _key(text)
    reason: str = _key(text)
    dir: str = _key(text)
    result: dict[str, Any] | None = _key(lambda data: _result(data), None)  # the numbers that its ranks recorded
    warnings: tuple[str, ...] = _key(lambda data: _each(text)(data or []), ())  # an older record has none
    name: str = _key(text, "")
    framework: str | None = _key(optional(text), None)
    nodes: int | None = _key(optional(count), None)  # these two are not known of a damaged run
    ranks: int | None = _key(optional(count), None)
    up: int = _key(count, 0)
    attempt: int = _key(count, 0)
    engine: str | None = _key(optional(text), None)
    user: str | None = _key(optional(text), None)
    created: float | None = _key(moment, None)
    started: float | None = _key(moment, None)
    ended: float | None = _key(moment, None)
    failure: Explanation | None = _key(optional(Explanation.from_json), None)
    attempts: tuple[AttemptOutcome, ...] = _key(_each(AttemptOutcome.from_json), ())
    unread: Any = _key(lambda data: data, None)  # which logs were not read for the result, and why
    recorded: bool = field(default=False, compare=False)  # whether it was read from final.json

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunView:
        """Reads a final record. Raises ValueError."""
        found = cls(**_values(cls, data), recorded=True)
        if not found.state.ended:
            raise ValueError("it is no final record")
        return found

    @classmethod
    def from_shown(cls, data: Mapping[str, Any]) -> RunView:
        """Reads a run as `muster ps --json` and `muster show --json` have it, ended or not. Raises ValueError."""
        attempts = tuple(map(AttemptOutcome.from_shown, sequence(data.get("attempts") or [])))
        found = cls(**_values(cls, {**data, "attempts": []}))
        return replace(found, attempts=attempts, recorded=True) if found.state.ended else found

    def to_json(self) -> dict[str, Any]:
        found = _to_json(self)
        unknown = () if self.state.ended else ("failure", "attempts")
        return {key: found[key] for key in found if key not in unknown and (key != "unread" or self.unread is not None)}


def is_failure(data: Mapping[str, Any]) -> bool:
    """True if data is a failure."""
    return _is_read_by(Failure.from_json, data)


def is_final(data: Mapping[str, Any]) -> bool:
    """True if data is a final record."""
    return _is_read_by(RunView.from_json, data)


def _is_read_by(read: Callable[[Mapping[str, Any]], object], data: Mapping[str, Any]) -> bool:
    try:
        read(data)
    except ValueError:
        return False
    return True


def _result(data: Any) -> dict[str, Any] | None:
    if data is None:
        return None
    for entry in map(mapping, mapping(data).values()):
        if not entry.keys() >= {"value", "unit", "reason"}:
            raise ValueError("a number without its unit or reason")
        text(entry["unit"])
        optional(text)(entry["reason"])
        if entry["value"] is not None and not math.isfinite(_number(entry["value"])):
            raise ValueError(f"{entry['value']} is not finite")
    return mapping(data)

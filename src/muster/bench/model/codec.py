"""Reads frozen dataclasses from JSON and writes them as JSON, by the types of their fields.

Reading validates: kinds of values, bounds, finite numbers, text that UTF-8 can hold. Keys that a class does not have are
passed over, so that a later version may add some; a field with a default may be missing, as in files of earlier versions.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from muster.bench.errors import ResultError

LARGEST = sys.float_info.max
END_OF_TIME = 32_503_680_000.0  # the year 3000: a clock that shows a later time is broken
SHOWN = 40  # characters of a value in an error

_WORDS: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}

T = TypeVar("T")
Reader = Callable[[Any, str], Any]
"""Takes a JSON value and its place in the document, and returns the value of a field."""


@dataclass(frozen=True)
class OneOf:
    """The texts that a field may hold."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Within:
    """The bounds of a number."""

    low: float
    high: float


INLINE = object()  # the fields of this dataclass stand among those of its owner
WHOLE = object()  # the whole object that the others are read from; it is what is written
Moment = Annotated[float, Within(0.0, END_OF_TIME)]  # seconds since 1970
Count = Annotated[int, Within(0, 10**9)]


def read(kind: type[T], data: Any, place: str = "") -> T:
    """An instance of a dataclass from JSON. Raises ResultError, which names the place of what is wrong."""
    if not isinstance(data, dict):
        raise _wrong(place, data, "an object")
    found: dict[str, Any] = {}
    for name, reader, mark, required in _fields(cast(Any, kind)):
        if mark is INLINE or mark is WHOLE:
            found[name] = reader(data, place)
        elif name in data:
            found[name] = reader(data[name], _join(place, name))
        elif required:
            raise ResultError(f"{_join(place, name)}: is missing")
    try:
        return kind(**found)
    except ResultError as error:
        raise ResultError(_join(place, str(error))) from None


class Record:
    """A dataclass that is a JSON document of its own."""

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Validates a document and reads it. Raises ResultError."""
        return read(cls, data)

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return written


def write(value: Any) -> Any:
    """A dataclass as JSON, its keys in the order of its fields."""
    if is_dataclass(value):
        written: dict[str, Any] = {}
        for name, _, mark, _ in _fields(cast(Any, type(value))):
            inner = write(getattr(value, name))
            if mark is WHOLE:
                return inner
            written.update(inner if mark is INLINE else {name: inner})
        return written
    if isinstance(value, Mapping):
        return {key: write(inner) for key, inner in value.items()}
    return [write(inner) for inner in value] if isinstance(value, tuple | list) else value


@cache
def _fields(kind: type) -> list[tuple[str, Reader, Any, bool]]:
    """The fields of a dataclass, each with its reader, its mark, and whether it is required; the whole object first."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        mark = getattr(hints[field.name], "__metadata__", (None,))[0]
        required = field.default is MISSING and field.default_factory is MISSING
        found.append((field.name, _reader(hints[field.name]), mark, required))
    return sorted(found, key=lambda field: field[2] is not WHOLE)


@cache
def _reader(hint: Any) -> Reader:
    """The reader of the values of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return partial(_bounded, _reader(arguments[0]), arguments[1])
    if origin is Union or origin is UnionType:
        return partial(_either, [_reader(kind) for kind in arguments if kind is not NoneType])
    if origin is tuple:
        return partial(_list, _reader(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_table, _reader(arguments[1]))
    if hint is Any:
        return _anything
    return partial(_plain if hint in _WORDS else read, hint)


def _bounded(reader: Reader, bound: Any, data: Any, place: str) -> Any:
    value = reader(data, place)
    if isinstance(bound, OneOf) and value not in bound.texts:
        raise _wrong(place, value, f"one of {', '.join(bound.texts)}")
    if isinstance(bound, Within) and not bound.low <= value <= bound.high:
        raise _wrong(place, value, f"between {bound.low:g} and {bound.high:g}")
    return value


def _either(readers: list[Reader], data: Any, place: str) -> Any:
    if data is None:
        return None
    for reader in readers[:-1]:
        try:
            return reader(data, place)
        except ResultError:
            continue
    return readers[-1](data, place)


def _list(inner: Reader, data: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _wrong(place, data, "a list")
    return tuple(inner(value, f"{place}[{index}]") for index, value in enumerate(data))


def _table(inner: Reader, data: Any, place: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(place, data, "an object")
    return {_plain(str, name, place): inner(value, _join(place, name)) for name, value in data.items()}


def _plain(kind: Any, data: Any, place: str) -> Any:
    """A text, a truth value or a number as it stands there: 5 stays 5, so that it is written as it was read."""
    allowed = (int, float) if kind is float else kind
    if not isinstance(data, allowed) or (isinstance(data, bool) and kind is not bool):
        raise _wrong(place, data, _WORDS[kind])
    if kind is float and not -LARGEST <= data <= LARGEST:
        raise _wrong(place, data, "a finite number")
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError:
            raise ResultError(f"{place}: contains invalid Unicode (lone surrogates)") from None
    return data


def _anything(data: Any, place: str) -> Any:
    if isinstance(data, dict):
        return _table(_anything, data, place)
    if isinstance(data, list):
        return [_anything(value, f"{place}[{index}]") for index, value in enumerate(data)]
    return _plain(type(data), data, place) if isinstance(data, str | float) else data


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _wrong(place: str, data: Any, expected: str) -> ResultError:
    if isinstance(data, dict | list):
        text = "an object" if isinstance(data, dict) else "a list"
    else:
        text = f"{data:.6g}" if isinstance(data, float) else json.dumps(data)
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return ResultError(f"{place or 'it'}: {shown} is not {expected}")

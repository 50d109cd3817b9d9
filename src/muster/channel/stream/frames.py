"""Frames of the stream: messages as JSON, and pieces of files. What the other side sends is bounded before it is kept."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.records.untrusted import parse_json

_HEADER = struct.Struct(">cI")
_NUMBER = struct.Struct(">Q")
PIECE = 1 << 18  # bytes of a file in one frame: what is urgent waits for no more than that

MESSAGE = b"M"  # an object
OPEN = b"O"  # an object: a file of which pieces follow
DATA = b"D"  # the number of that file, and a piece of it
CLOSE = b"C"  # the number of a file that is complete
RECEIVED = b"R"  # how many bytes of files were written, on this connection
BEGIN = b"B"  # the number of a connection of a node's helper; with the port, of one to a port of the other side
CARRY = b"T"  # the number of such a connection, and a piece of it; without one, this direction has ended, twice: both
GRANT = b"G"  # the number of such a connection, and how many bytes of it were taken
CARRIED = (BEGIN, CARRY, GRANT)
_MOST = {
    MESSAGE: 64 << 20,
    OPEN: 1 << 16,
    **dict.fromkeys((DATA, CARRY), PIECE + _NUMBER.size),
    **dict.fromkeys((CLOSE, RECEIVED), _NUMBER.size),
    BEGIN: _NUMBER.size + 2,
    GRANT: _NUMBER.size + 4,
}


class Broken(Exception):
    """The other side sent what is no frame of this protocol."""


class Frame(NamedTuple):
    kind: bytes
    payload: bytes

    @property
    def number(self) -> int:
        """The number that begins the payload. Raises Broken."""
        if len(self.payload) < _NUMBER.size:
            raise Broken("a frame without its number")
        return int(_NUMBER.unpack_from(self.payload)[0])

    @property
    def piece(self) -> bytes:
        return self.payload[_NUMBER.size :]

    @property
    def object(self) -> dict[str, Any]:
        """Raises Broken."""
        try:
            data = parse_json(self.payload)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise Broken("a message that is no JSON object")
        return data


def with_object(kind: bytes, data: dict[str, Any]) -> bytes:
    return _frame(kind, json.dumps(data).encode())


def with_number(kind: bytes, number: int, piece: bytes = b"") -> bytes:
    return _frame(kind, _NUMBER.pack(number) + piece)


def message(say: str, /, **data: Any) -> bytes:
    return with_object(MESSAGE, {"say": say, **data})


def _frame(kind: bytes, payload: bytes) -> bytes:
    return _HEADER.pack(kind, len(payload)) + payload


class Parser:
    """Bytes as they come, turned into frames; `message` is the most bytes of one message."""

    def __init__(self, message: int = _MOST[MESSAGE]) -> None:
        self._rest = bytearray()
        self._most = {**_MOST, MESSAGE: message}

    @property
    def empty(self) -> bool:
        """True if nothing was fed of which the end is missing."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now. Raises Broken."""
        self._rest += data
        start = 0
        try:
            while len(self._rest) - start >= _HEADER.size:
                kind, length = _HEADER.unpack_from(self._rest, start)
                if length > self._most.get(kind, -1):
                    raise Broken(f"a frame of kind {kind!r} with {length} bytes")
                end = start + _HEADER.size + length
                if len(self._rest) < end:
                    return
                start += _HEADER.size
                payload = bytes(self._rest[start:end])
                start = end
                yield Frame(kind, payload)
        finally:
            del self._rest[:start]

"""Protocol buffers on the wire: as much of them as TFRecord's examples and MindSpore's checkpoints need."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}


class Malformed(ValueError):
    """Bytes that are no message; `at` says where."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no message at byte {at}")
        self.at = at


def fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, kind, and where the value lies; of a varint the value itself."""
    at = start
    while at < end:
        key, at = varint(data, at, end)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield key >> 3, kind, value, value
            continue
        if kind == BYTES:
            size, at = varint(data, at, end)
        elif kind in FIXED:
            size = FIXED[kind]
        else:
            raise Malformed(at)
        if at + size > end:
            raise Malformed(at)
        yield key >> 3, kind, at, at + size
        at += size


def varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number and the place behind it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        if byte < 128:
            return value | byte << shift, at
        value |= (byte & 127) << shift
        shift += 7
    raise Malformed(at)


def unpacked(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All varints of an array of bytes, and where each of them ends."""
    ends = np.flatnonzero(data < 128)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    sizes = ends - starts + 1
    values = (data[starts] & 127).astype(np.uint64)
    for byte in range(1, int(sizes.max(initial=1))):
        longer = np.flatnonzero(sizes > byte)
        values[longer] |= (data[starts[longer] + byte] & 127).astype(np.uint64) << np.uint64(7 * byte)
    return values.astype(np.int64), ends + 1


def number(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def packed(values: np.ndarray) -> bytes:
    """Many varints; numbers from 0 on."""
    left = values.astype(np.uint64)
    columns, there = [], [np.ones(len(left), bool)]
    while True:
        more = left > 127
        columns.append((left & np.uint64(127)).astype(np.uint8) | more.astype(np.uint8) << 7)
        if not more.any():
            return bytes(np.stack(columns, 1)[np.stack(there, 1)])
        there.append(more)
        left = left >> np.uint64(7)


def field(number_of_field: int, content: bytes) -> bytes:
    """A field that holds bytes: a text, a message, packed numbers."""
    return number(number_of_field << 3 | BYTES) + number(len(content)) + content

"""TFRecord files of tf.train.Example without TensorFlow: whole numbers and floats, and every checksum looked at."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import wire
from crc32c import checksums, masked

HEADER, FOOTER = struct.Struct("<QI"), struct.Struct("<I")
FLOATS, INTEGERS = 2, 3  # the kinds of tf.train.Feature that are read
Feature = tuple[int, bytes]  # its kind and its packed numbers


class BadRecord(ValueError):
    """A file that cannot be trusted; the message names the file and the byte."""

    def __init__(self, path: Path, at: int, wrong: str) -> None:
        super().__init__(f"{path}: {wrong} in the record at byte {at:,}; copy the file again or make it anew")


def read(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named features of all records, each as one array with a row per record."""
    buffer = np.fromfile(path, np.uint8)
    starts, lengths = _records(path, buffer)
    features = []
    for start, length in zip(starts.tolist(), lengths.tolist()):
        try:
            features.append(_features(buffer.data, start, start + length))
        except (ValueError, KeyError):
            raise BadRecord(path, start - HEADER.size, "something that is no tf.train.Example") from None
    return {name: _column(path, starts, features, name) for name in names}


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Records with a row of each column as a feature: whole numbers from 0 on, or floats."""
    examples = [_example({name: column[row] for name, column in columns.items()}) for row in range(_rows(columns))]
    lengths = np.array([len(example) for example in examples], np.int64)
    heads = lengths.astype("<u8").view(np.uint8)
    of_heads = masked(checksums(heads, np.arange(len(lengths)) * 8, np.full(len(lengths), 8)))
    of_data = masked(checksums(np.frombuffer(b"".join(examples), np.uint8), np.cumsum(lengths) - lengths, lengths))
    with open(path, "wb") as file:
        for example, head, data in zip(examples, of_heads.tolist(), of_data.tolist()):
            file.write(HEADER.pack(len(example), head) + example + FOOTER.pack(data))


def _records(path: Path, buffer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the data of each record lies, once all checksums fit."""
    starts, lengths, at, size = [], [], 0, len(buffer)
    while at < size:
        if at + HEADER.size > size:
            raise BadRecord(path, at, "the file ends")
        length, _ = HEADER.unpack_from(buffer.data, at)
        starts.append(at + HEADER.size)
        lengths.append(length)
        at += HEADER.size + length + FOOTER.size
    data_at, sizes = np.array(starts, np.int64), np.array(lengths, np.uint64)
    _check(path, buffer, data_at - HEADER.size, np.full(len(data_at), 8, np.int64), data_at, "a damaged length")
    if at > size:
        raise BadRecord(path, starts[-1] - HEADER.size, "the file ends")
    _check(path, buffer, data_at, sizes.astype(np.int64), data_at, "damaged data")
    return data_at, sizes.astype(np.int64)


def _check(path: Path, buffer: np.ndarray, starts: np.ndarray, lengths: np.ndarray, records: np.ndarray, wrong: str) -> None:
    """The checksum that stands behind each piece is that of the piece."""
    stored = buffer[(starts + lengths)[:, None] + np.arange(4)].view("<u4").ravel()
    damaged = np.flatnonzero(masked(checksums(buffer, starts, lengths)) != stored)
    if len(damaged):
        raise BadRecord(path, int(records[damaged[0]]) - HEADER.size, wrong)


def _features(data: memoryview, start: int, end: int) -> dict[str, Feature]:
    """The features of an example by name; what else it may hold is passed over."""
    found = {}
    for number, _, first, last in wire.fields(data, start, end):
        for _, _, entry, entry_end in wire.fields(data, first, last) if number == 1 else ():
            parts = {part: (at, behind) for part, _, at, behind in wire.fields(data, entry, entry_end)}
            name, name_end = parts[1]
            found[str(data[name:name_end], "utf-8")] = _feature(data, *parts.get(2, (0, 0)))
    return found


def _feature(data: memoryview, start: int, end: int) -> Feature:
    """Those numbers that a writer left unpacked are packed here."""
    for kind, _, values, values_end in wire.fields(data, start, end):
        lists = wire.fields(data, values, values_end)
        return kind, b"".join(wire.number(at) if form == wire.VARINT else data[at:behind] for _, form, at, behind in lists)
    return 0, b""


def _column(path: Path, starts: np.ndarray, features: list[dict[str, Feature]], name: str) -> np.ndarray:
    """One feature of all records; they have it in the same kind and number."""
    if not features:
        return np.empty((0, 0), np.int64)
    kind = features[0].get(name, (0, b""))[0]
    for start, found in zip(starts.tolist(), features):
        if name not in found or found[name][0] != kind or kind not in (FLOATS, INTEGERS):
            raise BadRecord(path, start - HEADER.size, f"no numbers called `{name}`")
    pieces = [found[name][1] for found in features]
    data, ends = np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([len(piece) for piece in pieces])
    if kind == FLOATS:
        value_ends = np.arange(4, len(data) + 1, 4)
        values = data[: len(value_ends) * 4].view("<f4")
    else:
        values, value_ends = wire.unpacked(data)
    counts = np.diff(np.searchsorted(value_ends, ends, side="right"), prepend=0)
    uneven = np.flatnonzero(counts != counts[0])
    if len(uneven):
        wrong = f"{counts[uneven[0]]} values of `{name}` where the first has {counts[0]}"
        raise BadRecord(path, int(starts[uneven[0]]) - HEADER.size, wrong)
    return values.reshape(len(features), -1)


def _example(row: Mapping[str, np.ndarray]) -> bytes:
    return wire.field(1, b"".join(wire.field(1, _entry(name, values)) for name, values in row.items()))


def _entry(name: str, values: np.ndarray) -> bytes:
    if values.dtype.kind == "f":
        feature = wire.field(FLOATS, wire.field(1, values.astype("<f4").tobytes()))
    else:
        feature = wire.field(INTEGERS, wire.field(1, wire.packed(values)))
    return wire.field(1, name.encode()) + wire.field(2, feature)


def _rows(columns: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(columns.values())))

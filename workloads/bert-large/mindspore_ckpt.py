"""MindSpore's `.ckpt` files, read and written without MindSpore: a protocol buffer of named tensors."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import wire

TYPES = {"Float32": torch.float32, "Float16": torch.float16, "BFloat16": torch.bfloat16, "Float64": torch.float64}
SLICE = 512 << 20  # bytes of a tensor in one entry; what is larger stands in several of the same name
CHECKSUM = b"crc_num"  # may stand at the end, with ten bytes behind it


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of floating numbers by name; counters and texts are passed over."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        end = len(mapped) - 17 if mapped[-17:-10] == CHECKSUM else len(mapped)
        slices: dict[str, list[Tensor]] = {}
        shapes: dict[str, list[int]] = {}
        with memoryview(mapped) as data:
            for _, _, start, stop in wire.fields(data, 0, end):
                tag, shape, kind, content = _entry(data, start, stop)
                if kind in TYPES:
                    part = torch.frombuffer(bytearray(data[content[0] : content[1]]), dtype=TYPES[kind])
                    slices.setdefault(tag, []).append(part)
                    shapes[tag] = shape
    return {tag: torch.cat(parts).reshape(shapes[tag]) for tag, parts in slices.items()}


def _entry(data: memoryview, start: int, stop: int) -> tuple[str, list[int], str, tuple[int, int]]:
    """Name, shape, type, and where the bytes lie."""
    tag, kind, shape, content = "", "", [], (0, 0)
    for number, _, first, last in wire.fields(data, start, stop):
        if number == 1:
            tag = str(data[first:last], "utf-8")
            continue
        for inner, form, value, value_end in wire.fields(data, first, last):
            if inner == 1 and form == wire.VARINT:
                shape.append(value)
            elif inner == 1:  # packed, as a writer may choose to
                shape += wire.unpacked(np.frombuffer(data[value:value_end], np.uint8))[0].tolist()
            elif inner == 2:
                kind = str(data[value:value_end], "utf-8")
            elif inner == 3:
                content = value, value_end
    return tag, [] if shape == [0] else shape, kind, content


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A file that MindSpore loads; float32."""
    with open(path, "wb") as file:
        for tag, tensor in tensors.items():
            content = tensor.detach().float().contiguous().numpy().tobytes()
            shape = b"".join(wire.number(1 << 3 | wire.VARINT) + wire.number(size) for size in tensor.shape)
            for first in range(0, len(content), SLICE):
                of_tensor = shape + wire.field(2, b"Float32") + wire.field(3, content[first : first + SLICE])
                file.write(wire.field(1, wire.field(1, tag.encode()) + wire.field(2, of_tensor)))

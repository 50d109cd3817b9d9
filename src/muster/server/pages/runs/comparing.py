"""Two runs side by side: the fields of their jobs that differ, and their code."""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.server.runs.code_trees import tree
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row

FILES = 50  # whose difference is shown
LINES = 400  # of the difference of a file
LARGEST = 200_000  # bytes of a file that is compared
VALUE = 500  # characters of a value


@dataclass(frozen=True)
class Difference:
    field: str
    first: str
    second: str


@dataclass(frozen=True)
class FileDifference:
    name: str
    only: str  # the id of the run that alone has it; "" where both do
    lines: list[tuple[str, str]]  # kind (add, del, hunk, same) and text; empty for what is no text


@dataclass(frozen=True)
class Compared:
    fields: list[Difference]
    files: list[FileDifference] | None  # None where the code of one is not there any more
    left_out: int


def compared(platform: Platform, first: Row, second: Row) -> Compared:
    files, left_out = _files(platform, first, second)
    return Compared(list(_fields(first.job, second.job)), files, left_out)


def _fields(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    one, other = dict(_flat(first)), dict(_flat(second))
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name) and name != "code":
            yield Difference(name, one.get(name, "–"), other.get(name, "–"))


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif value not in (None, {}, []):
        yield path, str(value)[:VALUE]


def _files(platform: Platform, first: Row, second: Row) -> tuple[list[FileDifference] | None, int]:
    if first.code == second.code:
        return [], 0
    trees = [tree(platform, row) for row in (first, second)]
    if trees[0] is None or trees[1] is None:
        return None, 0
    names = [name for name in sorted({*trees[0], *trees[1]}) if trees[0].get(name) != trees[1].get(name)]
    return [_file(name, trees[0].get(name), trees[1].get(name), first, second) for name in names[:FILES]], len(names) - len(
        names[:FILES]
    )


def _file(name: str, first: bytes | None, second: bytes | None, one: Row, other: Row) -> FileDifference:
    only = one.id if second is None else other.id if first is None else ""
    texts = [content or b"" for content in (first, second)]
    if any(b"\0" in text or len(text) > LARGEST for text in texts):
        return FileDifference(name, only, [])
    before, after = (text.decode("utf-8", "replace").splitlines() for text in texts)
    diff = difflib.unified_diff(before, after, lineterm="", n=3)
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    lines = [(kinds.get(line[:1], "same"), line) for line in diff if not line.startswith(("---", "+++"))]
    return FileDifference(os.fsencode(name).decode("utf-8", "replace"), only, lines[:LINES])

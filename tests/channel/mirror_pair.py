"""Both ends of a mirror in one process, and a wire between them that can be cut at any byte."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.channel.stream import frames
from muster.channel.stream.frames import Parser
from muster.channel.stream.mirror import Mirror
from muster.channel.stream.source import Source

LOGS = ("logs/rank-0.log", "logs/rank-1.log", "events.jsonl", "results/deep/metrics.jsonl")


class Pair:
    """Both ends of a mirror, and a wire between them."""

    def __init__(self, place: Path) -> None:
        self.here, self.there = place / "node", place / "mirror"
        for folder in ("logs", "results/deep", "stacks"):
            (self.here / folder).mkdir(parents=True)
        self.there.mkdir()
        self.published: list[str] = []
        self.opened: list[str] = []
        self.source = Source(str(self.here))
        self.mirror = Mirror(str(self.there), self.published.append, self.source.refuse)
        self.counter = 0

    def close(self) -> None:
        self.source.close()
        self.mirror.close()

    def do(self, what: str, name: str, size: int) -> None:
        path = self.here / name
        self.counter += 1
        data = (b"%d " % self.counter * (size // 2 + 1))[:size]
        if what == "append":
            with path.open("ab") as file:
                file.write(data)
        elif what == "truncate" and path.exists():
            os.truncate(path, 0)
        elif what == "rewrite" and path.exists():  # as long as before, or longer, before anybody looks
            with path.open("r+b") as file:
                before = path.stat().st_size
                file.truncate(0)
                file.write(data or b"again" * before)
        elif what == "overwrite":  # in its place, perhaps while it is being sent
            path.write_bytes(data)
        elif what == "replace":
            path.with_name(path.name + ".tmp").write_bytes(data)
            path.with_name(path.name + ".tmp").rename(path)

    def connect(self) -> None:
        self.mirror.close()
        self.source.connect(json.loads(json.dumps(self.mirror.have())))
        self.parser = Parser()
        self.written = 0

    def move(self, budget: int = 1 << 60) -> int:
        """Moves so many bytes at most; what is cut off is lost with the connection. Returns how many are left to be moved."""
        while budget > 0 and (data := self.source.next()):
            for frame in self.parser.feed(data[:budget]):
                if frame.kind == frames.OPEN:
                    self.opened.append(frame.object["name"])
                self.written += self.mirror.take(frame)
            budget -= len(data)
            self.source.received(self.written)
        return budget

    def step(self, count: int = 1) -> None:
        """Moves what the source gives at once, some times."""
        for _ in range(count):
            self.written += sum(map(self.mirror.take, self.parser.feed(self.source.next())))
            self.source.received(self.written)


HALF = "half of a file"


def tree(folder: Path) -> dict[str, bytes]:
    """The files of a folder; those that are being written are one of them."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {HALF if name.endswith(".tmp") else name: data for name, data in found.items()}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with closing(Pair(tmp_path)) as made:
        yield made

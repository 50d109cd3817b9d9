"""Questions to a program on a host and its answers, one after the other, as messages of the stream over one ssh connection."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Parser
from muster.engines.ssh.node.connection import Connection, Host, Unreachable

READ = 1 << 16
MOST = 1 << 20  # bytes of an answer
Answers = Mapping[str, Callable[..., Mapping[str, Any]]]


class Conversation:
    """The asking side. All of it has to happen within `limit` seconds; every method raises Unreachable."""

    def __init__(self, host: Host, command: str, environment: Mapping[str, str], limit: float) -> None:
        self._connection = Connection(host, command, environment)
        self._parser = Parser()
        self._end = time.monotonic() + limit
        self.broken = ""  # why it cannot be asked any more

    def open(self, agent: bytes) -> None:
        self._connection.open(agent, self._end - time.monotonic())

    def extend(self, limit: float) -> None:
        """Gives the host `limit` seconds from now on."""
        self._end = time.monotonic() + limit

    def ask(self, question: str, **words: Any) -> dict[str, Any]:
        self.say(question, **words)
        return self.answer()

    def say(self, question: str, **words: Any) -> None:
        with self._noticing():
            self._connection.send(frames.message(question, **words), self._end)

    def answer(self) -> dict[str, Any]:
        with self._noticing():
            return self._next()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """After an error, an answer could be that to an earlier question."""
        try:
            yield
        except Unreachable as error:
            self.broken = str(error)
            raise

    def _next(self) -> dict[str, Any]:
        data, self._connection.early = self._connection.early, b""
        heard = 0
        while heard <= MOST:
            heard += len(data)
            try:
                for frame in self._parser.feed(data):
                    return frame.object
            except Broken as error:
                raise Unreachable(f"it sent what it may not: {error}") from None
            data = self._connection.receive(READ, self._end)
            if not data:
                raise self._connection.why_closed()
        raise Unreachable("it sent what it may not: an answer without an end")

    def kill(self) -> None:
        """Makes whoever waits for an answer go on."""
        self._connection.kill()

    def close(self) -> None:
        self._connection.close()


def answer_questions(answers: Answers) -> None:
    """The answering side: serves standard input and output until the other side is gone."""
    parser = Parser()
    while data := os.read(0, READ):
        for frame in parser.feed(data):
            words = frame.object
            view = memoryview(frames.message("answer", **answers[str(words.pop("say"))](**words)))
            while view:
                view = view[os.write(1, view) :]

"""The link of a node: a process beside the supervisor that keeps a connection to the node's host.

It writes what the host sends into the run directory, passes on what is announced, and opens a lost connection again.
A hostile host reaches no further than this process.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from muster.channel.directory import ANNOUNCED, DirectoryNode
from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE, Broken, Frame, Parser
from muster.channel.stream.mirror import Mirror
from muster.dataclass import dataclass
from muster.engines.ssh.node.connection import Connection, Host, Unreachable
from muster.records.layout import AttemptDir, RunDir

READ = 1 << 20
AHEAD = 1 << 18  # bytes of code that are handed to ssh before they are asked for
# Seconds after which a connection is given up, less where hosts are lost soon: a host sends a sign of life every 2 seconds.
SILENCE, SHORTEST_SILENCE = 10.0, 5.0
PAUSES = (0.1, 0.3, 1.0, 2.0)  # before connecting again
FULL_PAUSE = 2.0  # before trying again to write to a full disk


@dataclass(frozen=True)
class Handover:
    """What a host is given of a run."""

    run: RunDir
    node: int
    host: Host
    command: str  # for the shell of the host
    environment: Mapping[str, str]  # of ssh
    agent: bytes
    code: int  # a descriptor of the archive of the code
    begin: Mapping[str, Any]
    lost_after: float
    attempt: int = 0  # one that an earlier supervisor has started


class Link:
    """`site` leads to the supervisor; `tokens` bounds how many links connect at a time."""

    def __init__(self, handover: Handover, site: socket.socket, tokens: tuple[int, int]) -> None:
        self._given = handover
        self._site = site
        self._tokens = tokens
        self._orders = Parser()
        self._connection: Connection | None = None
        self._heard = time.monotonic()  # the last frame of the host
        self._met = False  # whether the host has ever answered
        self._attempt: AttemptDir | None = None
        self._start: dict[str, Any] | None = None
        self._channel: DirectoryNode | None = None
        self._mirror: Mirror | None = None
        self._over = False
        self._silence = min(SILENCE, max(SHORTEST_SILENCE, handover.lost_after / 3))
        if handover.attempt:
            self._follow_attempt(handover.attempt)

    def run(self) -> NoReturn:
        tries = 0
        while not self._over:
            try:
                self._connect()
                tries = 0
                self._serve()
            except (Unreachable, Broken) as found:
                error = found if isinstance(found, Unreachable) else Unreachable(f"it sent what it may not: {found}")
                if not self._met and (error.lasting or tries >= len(PAUSES)):
                    self._tell("unfit", reason=str(error))
                    os._exit(1)
                self._break(error)
            except OSError as error:  # a full disk, or a network file system that is away
                self._break(Unreachable(f"the run directory cannot be written: {error.strerror}"))
                self._pause(FULL_PAUSE)
            tries += 1
            self._pause(PAUSES[min(tries, len(PAUSES)) - 1])
        os._exit(0)

    def _break(self, error: Unreachable) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._mirror is not None:
            self._mirror.close()
        if not self._over:
            self._tell("broken", reason=str(error))

    def _pause(self, seconds: float) -> None:
        """Waits, and goes on hearing the supervisor; tells it when the host counts as lost."""
        deadline = time.monotonic() + seconds
        while not self._over and (left := deadline - time.monotonic()) > 0:
            if select.select([self._site], [], [], left)[0]:
                self._hear()
        if self._met and time.monotonic() - self._heard > self._given.lost_after:
            self._tell("lost")
            self._heard = time.monotonic()

    # -- the connection

    def _connect(self) -> None:
        token, given = os.read(self._tokens[0], 1), self._given
        try:
            self._connection = Connection(given.host, given.command, given.environment)
            self._connection.open(given.agent)
        finally:
            os.write(self._tokens[1], token)
        self._parser, self._out, self._sent = Parser(), bytearray(), set[str]()
        self._written = self._acknowledged = 0
        self._code_at: int | None = None  # how much of the code was sent, while it is being sent
        self._last = time.monotonic()
        self._take(self._connection.early)

    def _serve(self) -> None:
        """Moves bytes both ways until the connection ends or the run does."""
        while not self._over or self._out:
            connection = self._connection
            assert connection is not None
            poll = select.poll()
            poll.register(connection.reader, select.POLLIN)
            poll.register(self._site.fileno(), select.POLLIN)
            if self._channel is not None and not self._channel.polling:
                poll.register(self._channel.fileno(), select.POLLIN)
            if self._out or self._code_at is not None:
                poll.register(connection.writer, select.POLLOUT)
            ready = {descriptor for descriptor, _ in poll.poll(100 if self._channel and self._channel.polling else 1000)}
            if self._site.fileno() in ready:
                self._hear()
            if connection.reader in ready:
                self._read(connection)
            elif time.monotonic() - self._last > self._silence:
                raise Unreachable("nothing is heard of it any more", lasting=False)
            self._pass_on()
            self._write(connection)

    def _read(self, connection: Connection) -> None:
        with suppress(BlockingIOError):
            data = os.read(connection.reader, READ)
            if not data:
                raise connection.why_closed()
            self._take(data)

    def _write(self, connection: Connection) -> None:
        if self._written != self._acknowledged:
            self._acknowledged = self._written
            self._out += frames.with_number(frames.RECEIVED, self._written)
        while self._code_at is not None and len(self._out) < AHEAD:
            piece = os.pread(self._given.code, PIECE, self._code_at)
            self._code_at = self._code_at + len(piece) if piece else None
            self._out += frames.with_number(frames.DATA, 0, piece) if piece else frames.with_number(frames.CLOSE, 0)
        try:
            while self._out:
                del self._out[: os.write(connection.writer, self._out)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise connection.why_closed() from None

    def _say(self, say: str, **data: Any) -> None:
        if self._connection is not None:
            self._out += frames.message(say, **data)

    # -- what the host says

    def _take(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            self._heard = self._last = time.monotonic()
            if frame.kind == frames.MESSAGE:
                self._take_message(frame)
            elif self._mirror is not None:
                self._written += self._mirror.take(frame)

    def _take_message(self, frame: Frame) -> None:
        message = frame.object
        say = message.pop("say", None)
        if say == "ping":
            self._say("pong", sent=message.get("sent"))
        elif say == "hello":
            self._meet(message)
        elif say == "need":
            self._code_at = 0
        elif say == "attempt":
            self._mirror_attempt(message.get("attempt"))
        elif say in ("ready", "held", "busy", "unfit", "ended"):
            self._tell(str(say), **message)

    def _meet(self, hello: dict[str, Any]) -> None:
        self._met = True
        self._tell("connected", **hello)
        self._say("begin", lost_after=self._given.lost_after, **self._given.begin)
        if self._attempt is None:
            return
        if hello.get("attempt") == self._attempt.number:
            self._mirror_attempt(self._attempt.number)
        elif hello.get("given"):
            self._send_start()  # it was lost on its way
        else:  # another daemon: the first one was killed, or the host was started again
            self._say("deliver", attempt=self._attempt.number)

    def _mirror_attempt(self, number: object) -> None:
        if self._attempt is None or number != self._attempt.number or self._mirror is None:
            return
        self._mirror.close()
        self._say("have", attempt=number, files=self._mirror.have())

    # -- what the supervisor says

    def _hear(self) -> None:
        data = self._site.recv(READ)
        if not data:
            os._exit(1)  # the supervisor is gone; the host ends its ranks, unless another one comes
        for frame in self._orders.feed(data):
            order = frame.object
            say = order.pop("say")
            if say == "start":
                self._begin_attempt(order)
            elif say == "over":
                self._over = True
                self._say("over")
            else:
                self._say(say, **order)

    def _begin_attempt(self, order: dict[str, Any]) -> None:
        self._start = order
        self._follow_attempt(order["attempt"])
        self._sent = set()
        self._send_start()

    def _follow_attempt(self, number: int) -> None:
        self._attempt = self._given.run.attempt(number)
        folder = self._attempt.node(self._given.node)
        os.makedirs(folder.path, exist_ok=True)
        if self._channel is not None:
            self._channel.close()
        self._channel = DirectoryNode(self._attempt, self._given.node)
        self._mirror = Mirror(folder.path, self._channel.show)

    def _send_start(self) -> None:
        if self._start is not None:
            self._say("start", **self._start)

    def _pass_on(self) -> None:
        """Passes on what was announced; each once on a connection."""
        if self._channel is None or self._attempt is None:
            return
        self._channel.listen()
        for topic in ANNOUNCED:
            if topic not in self._sent and (data := self._channel.announced(topic)) is not None:
                self._sent.add(topic)
                self._say("announce", attempt=self._attempt.number, topic=topic, data=data)

    def _tell(self, say: str, **data: Any) -> None:
        try:
            self._site.sendall(frames.message(say, **data))
        except OSError:
            os._exit(1)

"""The link of a node: a process beside the supervisor that keeps a connection to the node's host.

It writes what the host sends into the run directory, passes on what is announced, and opens a lost connection again.
A hostile host reaches no further than this process.
"""

from __future__ import annotations

import math
import os
import random
import resource
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
from muster.channel.stream.tunnel import Tunnel
from muster.engines.ssh.node.addresses import Place
from muster.engines.ssh.node.connection import Connection, Unreachable
from muster.engines.ssh.node.handover import Handover
from muster.engines.ssh.node.submitter_files import StoreServer
from muster.linux import syscalls
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.records.untrusted import number

READ = 1 << 20
AHEAD = 1 << 18  # bytes of code that are handed to ssh before they are asked for
# Seconds after which a connection is given up, less where hosts are lost soon: a host sends a sign of life every 2 seconds.
SILENCE, SHORTEST_SILENCE = 10.0, 5.0
LEAST = 1.0  # seconds for a connection to be opened, however soon the host counts as lost
PAUSES = (0.1, 0.3, 1.0, 2.0)  # before connecting again, about
MOST_CROWDED = 20  # tries to connect to a host that takes only so many new connections at a time
LEAVING = 5.0  # seconds for a host to hear that the run is over
FULL_PAUSE = 2.0  # before trying again to write to a full disk
SAID = 1 << 20  # bytes of a message of a host
UNREAD = 128 << 20  # bytes for a host that does not read them: as much as the largest message and what else waits
MOVING = 5.0  # seconds between two words that files arrive
MOST_BROKEN = 5  # connections on which a host may send what it may not


class Link:
    """`site` leads to the supervisor; `tokens` bounds how many links connect at a time."""

    def __init__(self, handover: Handover, site: socket.socket, tokens: tuple[int, int]) -> None:
        self._given = handover
        self._site = site
        self._tokens = tokens
        self._orders = Parser()
        self._connection: Connection | None = None
        self._heard = time.monotonic()  # the last frame of the host
        self._unwritten: float | None = None  # since when what it sends cannot be written
        self._moved = 0.0  # when the supervisor was last told that files arrive
        self._met = bool(handover.attempt)  # whether the host has ever answered, also to an earlier supervisor
        self._attempt: AttemptDir | None = None
        self._start: dict[str, Any] | None = None
        self._started = False  # whether the host is known to have started the attempt
        self._channel: DirectoryNode | None = None
        self._mirror: Mirror | None = None
        self._tunnel = Tunnel(StoreServer(handover.run.home, handover.roots, handover.node).connect)
        self._over = False
        self._silence = min(SILENCE, max(SHORTEST_SILENCE, handover.lost_after / 3))
        if handover.attempt:
            self._started = True
            self._follow_attempt(handover.attempt)

    def run(self) -> NoReturn:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # every log of a node is an open file
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        tries = broken = 0
        while token := self._take_token():
            try:
                self._connect(token)
                tries = 0
                self._serve()
            except Broken as found:
                error, broken = Unreachable(f"it sent what it may not: {found}"), broken + 1
                if not self._met or broken >= MOST_BROKEN:  # as long as it is heard, it would never count as lost
                    self._give_up(error)
                self._break(error)
            except Unreachable as error:
                if not self._met and (error.lasting or tries >= (MOST_CROWDED if error.crowded else len(PAUSES))):
                    self._give_up(error)
                self._break(error)
            except OSError as error:  # a full disk, or a network file system that is away
                self._break(Unreachable(f"the run directory cannot be written: {error.strerror}"))
                self._unwritten = self._unwritten or time.monotonic()
                self._pause(FULL_PAUSE)
            tries += 1
            self._pause(PAUSES[min(tries, len(PAUSES)) - 1] * random.uniform(0.5, 1.5))  # not all links at the same moment
        self._leave()

    def _leave(self) -> NoReturn:
        """Lets the host hear that the run is over, for which the supervisor does not wait."""
        syscalls.outlive_parent()
        self._site.close()
        if self._connection is not None:
            self._connection.finish(LEAVING)
            self._connection.close()
        os._exit(0)

    def _give_up(self, error: Unreachable) -> NoReturn:
        self._tell("unfit", reason=str(error))
        os._exit(1)

    def _break(self, error: Unreachable) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._tunnel.close()
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
        self._judge()

    def _judge(self) -> None:
        """Tells the supervisor when the host counts as lost."""
        since = min(self._heard, self._unwritten or self._heard)
        if self._met and time.monotonic() - since > self._given.lost_after:
            self._tell("lost")
            self._heard, self._unwritten = time.monotonic(), None

    # -- the connection

    def _take_token(self) -> bytes:
        """Waits until this link may connect, and hears the supervisor meanwhile; nothing when the run is over."""
        while not self._over:
            ready = select.select([self._site.fileno(), self._tokens[0]], [], [], 1.0)[0]
            if self._site.fileno() in ready:
                self._hear()
            elif ready:
                with suppress(BlockingIOError):  # another link was quicker
                    return os.read(self._tokens[0], 1)
            self._judge()
        return b""

    def _connect(self, token: bytes) -> None:
        """Opens a connection, to a host that has answered before in the time that it has left; gives the token back."""
        given = self._given
        try:
            self._connection = Connection(given.host, given.command, given.environment, tied=True)
            left = self._heard + given.lost_after - time.monotonic() if self._met else math.inf
            self._connection.open(given.agent, max(LEAST, left))
        finally:
            os.write(self._tokens[1], token)
        self._parser, self._out, self._sent = Parser(SAID), bytearray(), set[str]()
        self._written = self._acknowledged = 0
        self._code_at: int | None = None  # how much of the code was sent, while it is being sent
        self._last = time.monotonic()
        self._greeted = False  # whether the host has said who it is, on this connection
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
            self._tunnel.register(poll)
            if self._out:
                poll.register(connection.writer, select.POLLOUT)
            ready = {descriptor for descriptor, _ in poll.poll(100 if self._channel and self._channel.polling else 1000)}
            if self._site.fileno() in ready:
                self._hear()
            if connection.reader in ready:
                self._read(connection)
            elif time.monotonic() - self._last > self._silence:
                raise Unreachable("nothing is heard of it any more", lasting=False)
            self._tunnel.act()
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
        try:
            while self._fill():
                del self._out[: os.write(connection.writer, self._out)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise connection.why_closed() from None

    def _fill(self) -> bool:
        """Adds the code, and what goes to helpers on the host, to what is sent next; false if there is nothing to send."""
        while self._code_at is not None and len(self._out) < AHEAD:
            piece = os.pread(self._given.code, PIECE, self._code_at)
            self._code_at = self._code_at + len(piece) if piece else None
            self._out += frames.with_number(frames.DATA, 0, piece) if piece else frames.with_number(frames.CLOSE, 0)
        while len(self._out) < AHEAD and (data := self._tunnel.next()):
            self._out += data
        return bool(self._out)

    def _say(self, say: str, **data: Any) -> None:
        if self._connection is not None:
            self._out += frames.message(say, **data)

    # -- what the host says

    def _take(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            if len(self._out) > UNREAD:
                raise Broken("questions, and it does not read the answers")
            self._heard = self._last = time.monotonic()
            if frame.kind == frames.MESSAGE:
                self._take_message(frame)
            elif not self._greeted:
                raise Broken("files before its first word")
            elif frame.kind in frames.CARRIED:
                self._tunnel.take(frame)
            elif self._mirror is not None and (written := self._mirror.take(frame)):
                self._written += written
                self._unwritten = None
                if self._heard > self._moved + MOVING:
                    self._moved = self._heard
                    self._tell("moved")

    def _take_message(self, frame: Frame) -> None:
        message = frame.object
        say = message.pop("say", None)
        if say == "ping":
            self._say("pong", sent=number(message.get("sent")) or 0.0)
        elif say == "hello":
            self._greeted = True
            self._meet(message)
        elif not self._greeted and say != "unfit":
            raise Broken(f"`{say}` before its first word")
        elif say == "clock":
            self._measure_clock(message)
        elif say == "need":
            self._code_at = 0
        elif say == "attempt":
            self._started = True
            self._mirror_attempt(message.get("attempt"))
        elif say in ("ready", "held", "busy", "free", "unfit", "ended"):
            self._tell(str(say), **message)

    def _meet(self, hello: dict[str, Any]) -> None:
        try:
            Place.from_json(hello.get("place") or {})
        except ValueError as error:
            raise Broken(str(error)) from None
        self._met = True
        self._tell("connected", **hello)
        self._say("clock", asked=time.time())
        self._say("begin", lost_after=self._given.lost_after, **self._given.begin)
        if self._attempt is None:
            return
        if hello.get("attempt") == self._attempt.number:
            self._mirror_attempt(self._attempt.number)
        elif self._start is not None and (hello.get("given") or not self._started):
            self._send_start()  # it was lost on its way
        else:  # another daemon, or one that an earlier supervisor had not told to start
            self._say("deliver", attempt=self._attempt.number)

    def _measure_clock(self, answer: Mapping[str, Any]) -> None:
        """Tells by how much the host's clock is ahead of this machine's; by nothing, where that cannot be told from delays."""
        now = time.time()
        asked, heard, told = (number(answer.get(name)) for name in ("asked", "heard", "told"))
        if asked is not None and heard is not None and told is not None:
            ahead, delay = (heard - asked + told - now) / 2, now - asked - (told - heard)
            self._tell("clock", ahead=round(ahead, 3) if delay / 2 < abs(ahead) < clocks.MOST else 0.0)

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
                self._say("over", **order)
            else:
                self._say(say, **order)

    def _begin_attempt(self, order: dict[str, Any]) -> None:
        self._start, self._started = order, False
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
        self._mirror = Mirror(folder.path, self._channel.show, self._refuse)

    def _refuse(self, name: str, reason: str) -> None:
        self._say("refuse", name=name, reason=reason)

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

    def _tell(self, say: str, /, **data: Any) -> None:
        try:
            self._site.sendall(frames.message(say, **data))
        except OSError:
            os._exit(1)

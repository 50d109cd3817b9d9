"""The daemon of a node on its host: starts the agent of each attempt, and sends what it writes over the current connection.

It lives as long as its run does. Without a connection for too long it ends its ranks: no rank outlives its supervisor by more.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from muster.agent.sandbox import agent_process
from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame, Parser
from muster.engines.ssh.node.host_node import HostNode
from muster.engines.ssh.node.host_paths import HostPaths
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.signals import Signals
from muster.records.files import delete_tree

PING = 2.0  # seconds between two signs of life
AHEAD = 1 << 18  # bytes that are handed to the socket before they are asked for
READ = 1 << 18
POLL = 0.1  # where changes of files cannot be waited for


def be_daemon(paths: HostPaths, node: int, listening: int) -> NoReturn:
    """Never returns. `listening` is a pipe that is closed when the daemon can be reached."""
    try:
        os.makedirs(paths.run.path, 0o700, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        listener.bind(paths.socket)
        listener.listen(8)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        agent_process.write_to(paths.log)
        os.close(listening)
        os.chdir("/")
        syscalls.set_name(f"muster-host-{node}")
        Daemon(paths, node, listener).serve()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class Daemon:
    def __init__(self, paths: HostPaths, node: int, listener: socket.socket) -> None:
        self._paths = paths
        self._listener = listener
        self._connection: socket.socket | None = None
        self._parser = Parser()
        self._out = bytearray()
        self._heard = time.monotonic()  # when the last ping was sent that was answered
        self._pinged = 0.0
        self._given = False  # whether the run was handed over
        self._over = False
        self._lost_after = 60.0
        self._node = HostNode(paths, node, self._say)
        self._signals = Signals((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        release()

    def serve(self) -> NoReturn:
        while not self._over:
            self._wait()
            self._signals.take()
            self._accept()
            self._receive()
            self._node.look()
            self._keep_lease()
            self._send()
        if self._node.disposable:
            delete_tree(self._paths.run.path)
        os._exit(0)

    # -- the connection

    def _wait(self) -> None:
        poll = select.poll()
        for descriptor in (self._listener.fileno(), self._signals.fileno(), *self._node.filenos()):
            poll.register(descriptor, select.POLLIN)
        if self._connection is not None:
            poll.register(self._connection.fileno(), select.POLLIN | (select.POLLOUT if self._out else 0))
        poll.poll((POLL if self._node.polling else PING / 2) * 1000)

    def _accept(self) -> None:
        """Takes a new connection, the last one of which counts."""
        self._listener.setblocking(False)
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user not in (os.getuid(), 0):
                connection.close()
                return
            self._disconnect()
            connection.setblocking(False)
            self._connection, self._parser, self._pinged = connection, Parser(), 0.0
            self._say("hello", given=self._given, **self._node.hello())

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._out.clear()
        self._node.disconnected()

    def _receive(self) -> None:
        if self._connection is None:
            return
        try:
            data = self._connection.recv(READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._disconnect()
        try:
            for frame in self._parser.feed(data):
                self._take(frame)
        except OSError as error:  # a full disk, or a directory that may not be written
            self._say("unfit", reason=f"{str(error.strerror).lower()}: {error.filename or self._paths.root}")
        except Broken as error:
            print(f"the connection is given up: {error}", file=sys.stderr, flush=True)
            self._disconnect()

    def _take(self, frame: Frame) -> None:
        if frame.kind == frames.RECEIVED:
            self._node.received(frame.number)
            return
        if frame.kind in (frames.DATA, frames.CLOSE):
            self._node.take_blob(frame)
            return
        message = frame.object
        say = message.pop("say", None)
        if say == "pong":
            self._heard = max(self._heard, float(message["sent"]))
        elif say == "over":
            self._over = True
        elif say == "begin":
            self._lost_after = float(message.pop("lost_after"))
            self._given = True
            self._node.begin(message)
        else:
            actions: dict[Any, Callable[..., None]] = {
                "have": self._node.have,
                "hold": self._node.hold,
                "let-go": self._node.let_go,
                "start": self._node.start,
                "announce": self._node.announce,
                "deliver": self._node.deliver,
                "kill": self._node.kill,
            }
            if say not in actions:
                raise Broken(f"an unknown message: {say}")
            actions[say](**message)

    def _say(self, say: str, **data: Any) -> None:
        if self._connection is not None:
            self._out += frames.message(say, **data)

    def _send(self) -> None:
        if self._connection is None:
            return
        now = time.monotonic()
        if now >= self._pinged + PING:
            self._pinged = now
            self._say("ping", sent=now)
        while len(self._out) < AHEAD and (data := self._node.next_frames()):
            self._out += data
        try:
            if self._out:
                del self._out[: self._connection.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self._disconnect()

    # -- without a connection

    def _keep_lease(self) -> None:
        """Ends the ranks when the supervisor was not heard of for too long, and then itself."""
        silent = time.monotonic() - self._heard
        if silent > self._lost_after:
            self._node.cut_off()
            self._over |= not self._node.running

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
from collections.abc import Callable
from typing import Any, NoReturn

from muster.agent.sandbox import agent_process
from muster.agent.supervisor.device_locks import HOST_DAEMON
from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame, Parser
from muster.channel.stream.tunnel import Tunnel
from muster.engines.ssh.node.host.node import HostNode
from muster.engines.ssh.node.host.paths import HostPaths
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.signals import Signals
from muster.records.files import delete_tree

PING = 2.0  # seconds between two signs of life
AHEAD = 1 << 18  # bytes that are handed to the socket before they are asked for
READ = 1 << 18
HELPERS = 1024  # connections of helpers that wait for the submitter's machine
POLL = 0.1  # where changes of files cannot be waited for
UNSTARTED = 10.0  # seconds without a byte after which devices are for others, and the daemon ends, if nothing has started


def be_daemon(paths: HostPaths, node: int, listening: int) -> NoReturn:
    """Never returns. `listening` is a pipe that is closed when the daemon can be reached."""
    try:
        mask = os.umask(0o077)  # for directories above it, too
        os.makedirs(paths.run.path, exist_ok=True)
        os.umask(mask)
        listener = _listener(paths.socket[1:], 8)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        agent_process.write_to(paths.log)
        os.close(listening)
        os.chdir("/")
        syscalls.set_name(f"{HOST_DAEMON}{node}")
        Daemon(paths, node, listener).serve()
    except BaseException:
        import traceback  # here, because it takes long to import

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
        self._received = time.monotonic()  # when anything came: answers may wait behind the code in the buffers of ssh
        self._asked: tuple[object, float] | None = None  # for the time, by the other side's clock, and when by this one
        self._given = False  # whether the run was handed over
        self._over = False
        self._keep = False  # whether the run continues later, and finds here what its ranks share
        self._lost_after = 60.0
        self._tunnel = Tunnel()
        self._helpers = _listener("muster-store-" + os.urandom(12).hex(), HELPERS)
        self._node = HostNode(paths, node, self._say, self._helpers.getsockname()[1:].decode())
        self._signals = Signals((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        release()

    def serve(self) -> NoReturn:
        while not self._over:
            self._wait()
            self._signals.take()
            self._accept()
            self._receive()
            self._accept_helpers()
            self._tunnel.act()
            self._node.look()
            self._keep_lease()
            self._send()
        if self._node.disposable:
            self._delete()
        os._exit(0)

    def _delete(self) -> None:
        """Deletes the records of the run, which the supervisor's side has; not what its next attempt looks for here."""
        path = self._paths.run.path
        for name in os.listdir(path) if self._keep else ():
            if name != os.path.basename(self._paths.run.shared):
                delete_tree(f"{path}/{name}") if os.path.isdir(f"{path}/{name}") else os.unlink(f"{path}/{name}")
        if not self._keep:
            delete_tree(path)

    # -- the connection

    def _wait(self) -> None:
        poll = select.poll()
        for descriptor in (self._listener.fileno(), self._signals.fileno(), *self._node.filenos()):
            poll.register(descriptor, select.POLLIN)
        if self._connection is not None:
            poll.register(self._connection.fileno(), select.POLLIN | (select.POLLOUT if self._out else 0))
            self._tunnel.register(poll)
            if not self._tunnel.full:
                poll.register(self._helpers.fileno(), select.POLLIN)
        poll.poll((POLL if self._node.polling else PING / 2) * 1000)

    def _accept(self) -> None:
        """Takes a new connection, the last one of which counts."""
        if (connection := _accepted(self._listener)) is not None:
            self._disconnect()
            connection.setblocking(False)
            self._connection, self._parser, self._pinged = connection, Parser(), 0.0
            self._received = time.monotonic()
            self._say("hello", given=self._given, **self._node.hello())

    def _accept_helpers(self) -> None:
        """Carries the connections of helpers to the submitter's machine; without a connection there, they wait."""
        while self._connection is not None and not self._tunnel.full:
            helper = _accepted(self._helpers)
            if helper is None:
                return
            self._tunnel.begin(helper)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._out.clear()
        self._tunnel.close()
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
        if data:
            self._received = time.monotonic()
        else:
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
        if frame.kind in frames.CARRIED:
            self._tunnel.take(frame)
            return
        if frame.kind in (frames.DATA, frames.CLOSE):
            self._node.take_blob(frame)
            return
        message = frame.object
        say = message.pop("say", None)
        if say == "pong":
            self._heard = max(self._heard, float(message["sent"]))
        elif say == "clock":
            self._asked = message.get("asked"), time.time()
        elif say == "over":
            self._over, self._keep = True, message.get("keep") is True
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
                "refuse": self._node.refuse,
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
        if self._asked is not None:
            asked, heard = self._asked
            self._asked = None
            self._say("clock", asked=asked, heard=heard, told=time.time())
        try:
            while self._fill():
                del self._out[: self._connection.send(self._out)]
        except BlockingIOError:
            return
        except OSError:
            self._disconnect()

    def _fill(self) -> bool:
        """Adds files and what helpers send, in turn, to what is sent next; false if there is nothing."""
        while len(self._out) < AHEAD and (data := self._node.next_frames() + self._tunnel.next()):
            self._out += data
        return bool(self._out)

    # -- without a connection

    def _keep_lease(self) -> None:
        """Ends the ranks when the supervisor was not heard of for too long, and then itself."""
        now = time.monotonic()
        silent = now - self._heard
        if not self._node.started and now - self._received > UNSTARTED:
            self._over |= self._connection is None
            self._disconnect()
        if self._node.started and silent > self._lost_after:
            self._node.cut_off()
            self._over |= not self._node.running


def _listener(name: str, backlog: int) -> socket.socket:
    """A socket without a place on a disk."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    found.bind(f"\0{name}")
    found.listen(backlog)
    found.setblocking(False)
    return found


def _accepted(listener: socket.socket) -> socket.socket | None:
    """A new connection of this user's own, if there is one."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return None
    _, user, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user in (os.getuid(), 0):
        return connection
    connection.close()
    return None

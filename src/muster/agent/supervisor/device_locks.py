"""Devices held for a run, so that no other run of any user on this machine takes them.

A lock is an abstract socket with the device's name: it holds for all users of the machine (of its network namespace, to be
exact), needs no file and no permission, cannot become stale, and who waits for it can see who holds it and is woken when
it is let go.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Sequence

from muster.dataclass import dataclass
from muster.devices import KINDS, DeviceInfo, DriverError, share, shortage
from muster.linux import proc
from muster.linux.watch import readable
from muster.records.files import read_object
from muster.records.layout import RunDir

GIVEN = "MUSTER_DEVICES_GIVEN"  # the variable of processes whose devices are held for them
TURN = b"\0muster/devices"  # held while a run chooses, so that two of them do not take each half of what both need
MOST_WAITING = 4096
HOST_DAEMON = "muster-host-"  # how the names of daemons on hosts begin; their command lines end with run and node


@dataclass(frozen=True)
class Held:
    """The devices of a run, by node, until they are let go."""

    nodes: list[list[DeviceInfo]]
    sockets: list[socket.socket]

    def close(self) -> None:
        for lock in self.sockets:
            lock.close()


class Queue:
    """A run that needs `count` devices for each of `nodes` nodes, until it has them.

    `chosen` are the ids of the devices that each node should have, which it gets where all of them are free. With `given`
    whoever started this process holds all that are seen, for this run.
    """

    def __init__(self, kind: str, nodes: int, count: int, chosen: Sequence[Sequence[str]] = (), given: bool = False) -> None:
        self.kind = kind
        self.nodes = nodes
        self.count = count
        self.chosen = chosen
        self.given = given
        self.reason = ""  # whom it waits for, in words
        self._found: list[DeviceInfo] = []
        self._holders: dict[bytes, Holder] = {}  # by the name of the lock

    def lacking(self, nodes: int = 0) -> str:
        """Why this machine can never give the devices, in words; empty if it can, or while its driver does not work.

        With `nodes`, as many ask for them here, each with a queue of its own.
        """
        try:
            self._found = self._found or KINDS[self.kind].found()
        except DriverError:
            return ""
        together = 0 if self.given else nodes  # others have their own
        return shortage(self.kind, self._found, together or self.nodes, self.count, "it")

    def take(self) -> Held | None:
        """Tries to hold the devices. Until then `reason` says what is in the way, and `filenos` when to try again."""
        module = KINDS[self.kind]
        self._forget_gone()
        try:
            self._found = self._found or module.found()
            used: dict[str, list[int]] = module.users()
        except DriverError as error:
            self.reason = f"waiting for devices: {error}"
            return None
        if not self._found:
            simulated = share(self.kind, [], self.nodes, self.count)
            self.reason = f"waiting for devices: this machine shows no {self.kind} devices at the moment"
            return None if simulated is None else Held(simulated, [])
        if self.given:
            own = share(self.kind, self._found, self.nodes, self.count)
            self.reason = "waiting for devices: those that were given to it are not seen"
            return None if own is None else Held(own, [])
        turn = _turn()
        if turn is None:
            self.reason = "waiting for devices: another run is choosing its own"
            return None
        try:
            return self._choose(used)
        finally:
            turn.close()

    def filenos(self) -> list[int]:
        """Descriptors that become readable when a device may be free."""
        return [holder.line.fileno() for holder in self._holders.values() if holder.line is not None]

    def close(self) -> None:
        for holder in self._holders.values():
            holder.close()
        self._holders = {}

    def _choose(self, used: dict[str, list[int]]) -> Held | None:
        locks: dict[str, socket.socket] = {}
        busy: dict[str, list[str]] = {}  # who is in the way, and at which devices
        for device in self._found:
            name = lock_name(self.kind, device)
            lock = _lock(name)
            if lock is None:
                busy.setdefault(f"{self._holder(name)} holds", []).append(device.id)
            elif device.unique in used:
                busy.setdefault(f"{process_words(used[device.unique][0])} uses", []).append(device.id)
                lock.close()
            else:
                locks[device.id] = lock
        free = [device for device in self._found if device.id in locks]
        chosen = self._as_chosen(free) or share(self.kind, free, self.nodes, self.count)
        taken = {device.id for node in chosen or [] for device in node}
        for id, lock in locks.items():
            if id not in taken:
                lock.close()
        if chosen is None:
            who = ["{} {} {}".format(said, self.kind, ", ".join(ids)) for said, ids in busy.items()]
            self.reason = "waiting for devices: " + "; ".join(who)
            return None
        self.close()  # nobody is waited for any more
        return Held(chosen, [locks[id] for id in taken])

    def _as_chosen(self, free: Sequence[DeviceInfo]) -> list[list[DeviceInfo]] | None:
        """The devices that were chosen before; None where they are not all free, or not what the run needs."""
        by_id = {device.id: device for device in free}
        ids = {id for node in self.chosen for id in node}
        fits = len(self.chosen) == self.nodes and all(len(node) == self.count for node in self.chosen)
        if not fits or not ids or len(ids) != self.nodes * self.count or not ids <= set(by_id):
            return None
        return [[by_id[id] for id in node] for node in self.chosen]

    def _holder(self, name: bytes) -> str:
        """The holder of a lock, in words. The connection is kept: each new one takes a place in the holder's queue for good."""
        if name not in self._holders:
            self._holders[name] = Holder(name)
        return self._holders[name].who

    def _forget_gone(self) -> None:
        for name, holder in list(self._holders.items()):
            if holder.gone():
                holder.close()
                del self._holders[name]


class Holder:
    """The holder of a lock, and a connection to it that ends when it releases the lock."""

    def __init__(self, name: bytes) -> None:
        self.who = "another run"
        self.run = ""
        self.line: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.line.setblocking(False)
        try:
            self.line.connect(name)
            credentials = self.line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, user, _ = struct.unpack("iII", credentials)
            self.who, self.run = process_words(pid, user), run_of(pid)
        except OSError:  # it is just being let go, or too many wait already
            self.close()

    def gone(self) -> bool:
        return self.line is None or readable([self.line.fileno()], 0)

    def close(self) -> None:
        if self.line is not None:
            self.line.close()
        self.line = None


def chosen_for(run: RunDir) -> list[list[str]]:
    """The ids of devices that a server's queue has chosen for each node of a run; empty where it has not."""
    found = read_object(run.chosen).get("devices")
    return [[str(id) for id in node] for node in found if isinstance(node, list)] if isinstance(found, list) else []


def lock_name(kind: str, device: DeviceInfo) -> bytes:
    """The address of the lock of a device."""
    return b"\0muster/device/%s/%s" % (kind.encode(), os.fsencode(device.unique)[-80:])  # a socket's name has 107 bytes


def _turn() -> socket.socket | None:
    """The right to choose. Whoever has it has it for a moment only."""
    for _ in range(1000):
        turn = _lock(TURN)
        if turn is not None:
            return turn
        time.sleep(0.001)
    return None


def _lock(name: bytes) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(name)
        lock.listen(MOST_WAITING)
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return lock


def process_words(pid: int, user: int | None = None) -> str:
    """A process in words: the run it belongs to if it is a supervisor or an agent, else its name, and its user."""
    words = os.fsdecode(proc.command_line(pid)).split("\0")
    program = os.path.basename(words[0]) or proc.name(pid)
    try:
        number = os.stat(f"/proc/{pid}").st_uid if user is None else user
    except OSError:
        return f"process {pid}"
    name = proc.user_name(number) or f"user {number}"
    if run := run_of(pid):
        return f"run {run} of {name}"
    return f"process {pid} ({program}) of {name}" if program else f"process {pid} of {name}"


def run_of(pid: int) -> str:
    """The run whose supervisor or agent a process is; empty if it is none."""
    words = os.fsdecode(proc.command_line(pid)).split("\0")
    for word in {"supervise", "agent"} & set(words[:-1]):
        path = words[words.index(word) + 1]
        if "/runs/" in path:
            return os.path.basename(path)
    return words[-3] if proc.name(pid).startswith(HOST_DAEMON) and len(words) > 3 else ""

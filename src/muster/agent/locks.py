"""Devices held for a run, so that no other run of any user on this machine takes them.

A lock is an abstract socket with the device's name: it is host-wide, needs no file and no permission, cannot become
stale, and who waits for it can see who holds it and is woken when it is let go.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from typing import Dict, List, Optional, Sequence, Tuple

from muster.devices import KINDS, Found


class Held:
    """The devices of a run, by node, until they are let go."""

    def __init__(self, nodes: List[List[Found]], sockets: List[socket.socket]) -> None:
        self.nodes = nodes
        self.sockets = sockets

    def close(self) -> None:
        for lock in self.sockets:
            lock.close()


def hold(kind: str, nodes: int, count: int) -> Tuple[Optional[Held], str, List[socket.socket]]:
    """Tries to hold `count` devices for each of `nodes` nodes.

    Returns them; or whom they have to be waited for, and sockets that become readable when one of those ends.
    """
    module = KINDS[kind]
    found: List[Found] = module.found()
    if not found:
        return Held([module.choose([], count) for _ in range(nodes)], []), "", []
    used = module.users()
    locks: Dict[str, socket.socket] = {}
    reasons: List[str] = []
    waiting: List[socket.socket] = []
    for device in found:
        lock = _lock(kind, device)
        if lock is None:
            holder, connection = _holder(kind, device)
            reasons.append("%s %s is held by %s" % (kind, device.id, holder))
            if connection is not None:
                waiting.append(connection)
        elif device.unique in used:
            reasons.append("%s %s is used by %s" % (kind, device.id, _process(used[device.unique][0])))
            lock.close()
        else:
            locks[device.id] = lock
    free = [device for device in found if device.id in locks]
    chosen = _choose(kind, free, nodes, count)
    taken = {device.id for node in chosen or [] for device in node}
    for name, lock in locks.items():
        if name not in taken:
            lock.close()
    if chosen is None:
        return None, "waiting for devices: " + "; ".join(reasons), waiting
    for connection in waiting:
        connection.close()
    return Held(chosen, [locks[name] for name in taken]), "", []


def _choose(kind: str, free: Sequence[Found], nodes: int, count: int) -> Optional[List[List[Found]]]:
    left = list(free)
    chosen = []
    for _ in range(nodes):
        devices = KINDS[kind].choose(left, count)
        if devices is None:
            return None
        chosen.append(devices)
        left = [device for device in left if device not in devices]
    return chosen


def _name(kind: str, device: Found) -> str:
    return "\0muster/device/%s/%s" % (kind, device.unique or device.id)


def _lock(kind: str, device: Found) -> Optional[socket.socket]:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(_name(kind, device))
        lock.listen(64)
        return lock
    except OSError:
        lock.close()
        return None


def _holder(kind: str, device: Found) -> Tuple[str, Optional[socket.socket]]:
    """Who holds a device, and a connection that ends when they do."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(_name(kind, device))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        connection.close()
        return "another run that is just ending", None
    pid, _, _ = struct.unpack("3i", credentials)
    return _process(pid), connection


def _process(pid: int) -> str:
    """A process in words: the run it belongs to if it is a supervisor, else its name, and its user."""
    try:
        user = pwd.getpwuid(os.stat("/proc/%d" % pid).st_uid).pw_name
    except (OSError, KeyError):
        return "process %d" % pid
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")]
    except OSError:
        words = []
    if "supervise" in words[:-1]:
        return "run %s of %s" % (os.path.basename(words[words.index("supervise") + 1]), user)
    return "process %d (%s) of %s" % (pid, os.path.basename(words[0]) if words and words[0] else "?", user)

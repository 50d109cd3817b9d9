"""Who uses the devices of this machine: holders of locks, and processes that no lock explains. Nothing is taken."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from muster.agent.supervisor.device_locks import Holder, lock_name, process_words, run_of
from muster.dataclass import dataclass
from muster.devices import KINDS, DeviceInfo
from muster.linux import proc

LISTENING = "00010000"  # in the flags of a socket


@dataclass(frozen=True)
class Use:
    """A device that is in use. `who` and `run` are empty where the asker knows the holder of the lock."""

    id: str
    lock: int  # the inode of the lock, which no other lock ever has; 0 for a device without
    who: str = ""
    run: str = ""


def uses(kind: str, devices: Sequence[DeviceInfo], known: Collection[int] = ()) -> list[Use]:
    """The devices that are in use. Raises DriverError.

    A holder is asked once: each question takes a place in its queue for good. Locks in `known` are not asked about again.
    """
    locks = _locks()
    running: dict[str, list[int]] = KINDS[kind].users()
    found = []
    for device in devices:
        name = lock_name(kind, device)
        if lock := locks.get(name, 0):
            found.append(Use(device.id, lock) if lock in known else _held(device.id, lock, name))
        elif pids := running.get(device.unique):
            found.append(Use(device.id, 0, process_words(pids[0]), run_of(pids[0])))
    return found


def _held(id: str, lock: int, name: bytes) -> Use:
    holder = Holder(name)
    holder.close()
    return Use(id, lock, holder.who, holder.run)


def _locks() -> dict[bytes, int]:
    """The inodes of the sockets that listen at abstract addresses, by these."""
    found = {}
    for line in proc.read("/proc/net/unix").splitlines()[1:]:
        words = line.split(None, 7)
        if len(words) == 8 and words[3] == LISTENING.encode() and words[7].startswith(b"@"):
            found[b"\0" + words[7][1:]] = int(words[6])
    return found

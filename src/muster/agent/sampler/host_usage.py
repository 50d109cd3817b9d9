"""CPU, memory, disk and network use of the whole machine, from files in /proc that are kept open."""

from __future__ import annotations

import os

from muster.agent.sampler.sample_writer import Sample
from muster.devices import Unmeasured
from muster.linux.proc import listed

SECTOR = 512  # bytes, whatever the disk's own are
MOST = 1 << 18


class Cpu:
    """The busy share of all CPUs since the last reading, in percent."""

    def __init__(self) -> None:
        self._file = open_file("/proc/stat")
        self._last: tuple[int, int] | None = None

    def read(self, moment: float) -> Sample:
        words = os.pread(self._file, 256, 0).split(b"\n", 1)[0].split()[1:9]
        times = [int(word) for word in words]  # user, nice, system, idle, iowait, ...
        now = (sum(times), sum(times[3:5]))
        last, self._last = self._last, now
        if last is None or now[0] <= last[0]:
            return Sample()
        return Sample({"cpu": round(100.0 * (1 - (now[1] - last[1]) / (now[0] - last[0])), 1)})


class Memory:
    """The bytes that are not available to programs."""

    def __init__(self) -> None:
        self._file = open_file("/proc/meminfo")

    def read(self, moment: float) -> Sample:
        lines = os.pread(self._file, 4096, 0).split(b"\n", 3)[:3]  # MemTotal, MemFree, MemAvailable
        total, _, available = (int(line.split()[1]) for line in lines)
        return Sample({"mem": (total - available) * 1024})


class Rates:
    """Bytes per second in and out of devices, from a file with counters since boot.

    `columns` are those of a device's name and of its two counters, of `unit` bytes each; `what` the devices are called.
    """

    def __init__(
        self, path: str, what: str, names: list[str], keys: tuple[str, str], columns: tuple[int, int, int], unit: int
    ) -> None:
        if not names:
            raise Unmeasured(f"no {what} of this machine is to be seen")
        self._file = open_file(path)
        self._names = {name.encode() for name in names}
        self._keys = keys
        self._columns = columns
        self._unit = unit
        self._last: tuple[float, ...] | None = None

    def read(self, moment: float) -> Sample:
        name, received, sent = self._columns
        lines = os.pread(self._file, MOST, 0).replace(b":", b" ").splitlines()  # behind the names of interfaces
        rows = [words for words in map(bytes.split, lines) if len(words) > sent and words[name] in self._names]
        now = (moment, *(sum(int(words[column]) for words in rows) * self._unit for column in (received, sent)))
        last, self._last = self._last, now
        if last is None or moment <= last[0]:
            return Sample()
        seconds = now[0] - last[0]
        return Sample({key: round(max(0, now[1 + i] - last[1 + i]) / seconds) for i, key in enumerate(self._keys)})


def disks() -> Rates:
    """Physical disks only: volumes on top of them would count twice."""
    return Rates("/proc/diskstats", "disk", real_names("/sys/block"), ("disk_read", "disk_write"), (2, 5, 9), SECTOR)


def network() -> Rates:
    """Physical interfaces, or those of a container; neither loopback nor RDMA."""
    return Rates("/proc/net/dev", "network interface", interfaces(), ("net_in", "net_out"), (0, 1, 9), 1)


def open_file(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Unmeasured(f"{path} cannot be read: {str(error.strerror).lower()}") from None


def interfaces() -> list[str]:
    return real_names("/sys/class/net") or [name for name in listed("/sys/class/net") if name != "lo"]


def real_names(folder: str) -> list[str]:
    """The devices of a class that are hardware, also of a virtual machine."""
    return [name for name in listed(folder) if os.path.exists(f"{folder}/{name}/device")]

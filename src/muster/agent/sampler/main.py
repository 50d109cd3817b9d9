"""`sample NODE_DIR INTERVAL`: samples the machine, the devices and the ranks of a node until it is told to end.

It is a process of its own that is nice to others. Nothing that it meets ends it early, and nothing of it reaches a rank.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable

from muster.agent.sampler import hardware, power
from muster.agent.sampler.journal import Journal
from muster.agent.sampler.machine import Cpu, Disks, Memory, Network
from muster.agent.sampler.pace import Read, Source, why
from muster.agent.sampler.record import System
from muster.agent.sampler.slow import Chore, Slow
from muster.agent.sampler.trees import Trees
from muster.devices import Meter, Unmeasured, open_meter
from muster.linux.proc import descendants
from muster.linux.signals import Signals
from muster.linux.watch import readable
from muster.records.files import read_object
from muster.records.layout import NodeDir

NICE = 10
DEVICES = 0.004  # seconds of CPU that reading the devices may take at a tick


def main(argv: list[str]) -> int:
    folder, interval, *line = argv
    os.nice(NICE)
    Sampler(NodeDir(folder), float(interval), int(line[0]) if line else None).carry_on()
    return 0


class Sampler:
    """`line` is a socket at whose other end is the process that has the password of the BMC, where there is one."""

    def __init__(self, folder: NodeDir, interval: float, line: int | None = None) -> None:
        self._signals = Signals((signal.SIGTERM, signal.SIGINT))
        self._parent = os.getppid()
        self._power = os.environ.pop(power.VARIABLE, "")  # programs that are started from here have no use for it
        self._line = line
        self._folder = folder
        self._interval = interval
        self._facts: dict[str, Any] = read_object(folder.facts)
        self._journal = Journal(folder.metrics, interval, hardware.machine())
        self._slow = Slow()
        self._trees = Trees(self._parent, os.getpid())
        self._system = System(folder, self._trees, self._slow)
        self._sources: list[Source] = []
        self._closing: list[Any] = [self._trees]
        self._first, self._ending = True, False  # the moments at which everything is read, whatever it costs
        for name, make in (("cpu", Cpu), ("mem", Memory), ("disk", Disks), ("net", Network)):
            self._open(name, make)
        self._add("procs", self._trees.read)
        self._open_power()
        self._open_devices()
        self._system.begin(self._meter)

    # -- sources

    def _open(self, name: str, make: Callable[[], Any]) -> None:
        try:
            self._add(name, make().read)
        except Unmeasured as error:
            self._journal.missing(name, str(error))

    def _add(self, name: str, read: Read, **pace: float) -> None:
        self._sources.append(Source(name, read, self._journal.missing, **pace))

    def _open_power(self) -> None:
        try:
            sources = power.open_sources(power.settings(self._power, self._facts), self._line)
        except (TypeError, ValueError) as error:
            self._journal.missing("power", f"the settings cannot be understood: {why(error)}")
            return
        for name, reason in sources.missing.items():
            self._journal.missing(name, reason)
        if sources.rapl is not None:
            self._add(sources.rapl.name, sources.rapl.read)
            self._journal.power(sources.rapl.name)
            self._closing.append(sources.rapl)
        for source in sources.slow:
            self._slow.add(Chore(source.name, source.watts, self._watts(source.name), self._journal.missing, power.PAUSE))
        self._closing += sources.slow

    def _watts(self, name: str) -> Callable[[float, float], None]:
        """What takes over the watts of a source; they have a time of their own."""

        def deliver(moment: float, watts: float) -> None:
            self._journal.power(name)
            self._journal.add(moment, {"power": {name: watts}})

        return deliver

    def _open_devices(self) -> None:
        self._meter: Meter | None = None
        ids = [device["id"] for device in self._facts.get("devices", [])]
        try:
            self._meter = meter = open_meter(self._facts.get("device", "cpu"), ids)
        except Unmeasured as error:
            self._journal.missing("devices", str(error))
            return
        if meter.pause:
            self._slow.add(Chore("devices", meter.read, self._readings, self._journal.missing, meter.pause))
        else:
            self._journal.devices(meter.name)
            self._add("devices", self._devices, allowance=DEVICES)
        self._closing.append(meter)

    def _devices(self, moment: float) -> dict[str, Any]:
        readings = self._meter.read(self._ending or self._first) if self._meter else {}
        found = {id: reading.known() for id, reading in readings.items()}
        self._first = False
        self._note_missing()
        return {"devices": found}

    def _readings(self, moment: float, readings: Any) -> None:
        """Takes over what a slow meter has found."""
        if self._meter is not None:
            self._journal.devices(self._meter.name)
            self._system.show_devices(self._meter)
        self._journal.add(moment, {"devices": {id: reading.known() for id, reading in readings.items()}})
        self._note_missing()

    def _note_missing(self) -> None:
        for name, reason in self._meter.missing.items() if self._meter else ():
            self._journal.missing("devices." + name, reason)

    # -- time

    def carry_on(self) -> None:
        began = time.monotonic()
        while not self._told_to_end():
            self._sample()
            ticks = int((time.monotonic() - began) / self._interval) + 1  # late by more than one: the missed ones are left out
            readable([self._signals.fileno()], began + ticks * self._interval - time.monotonic())
        self._end()

    def _told_to_end(self) -> bool:
        return bool(self._signals.take()) or os.getppid() != self._parent

    def _sample(self) -> None:
        self._system.look()
        self._slow.hand_over()
        found: dict[str, Any] = {}
        wall, moment = time.time(), time.monotonic()
        for source in self._sources:
            found.update(source.read(moment) if self._ending else source.take(moment))
        self._journal.add(wall, found)

    def _end(self) -> None:
        self._ending = True
        self._sample()  # for counters to reach to the end
        self._journal.close()
        self._system.end()
        if self._slow.busy:
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it has just ended by itself
        for source in self._closing:
            try:
                source.close()
            except Exception:  # its thread may be using it; what counts is written
                continue

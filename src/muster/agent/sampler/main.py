"""`sample NODE_DIR INTERVAL`: samples the machine, the devices and the ranks of a node until it gets SIGTERM.

It is a process of its own with a low priority. No failure of a source ends it, and none of its own affects a rank.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import partial
from typing import Any, Callable

from muster.agent.sampler import hardware, power
from muster.agent.sampler.host_usage import Cpu, Memory, disks, network
from muster.agent.sampler.polling import BackgroundTask, BackgroundThread, Read, Source, describe
from muster.agent.sampler.process_tree import ProcessTree
from muster.agent.sampler.sample_writer import Sample, SampleWriter
from muster.agent.sampler.system_record import SystemRecord
from muster.devices import Meter, Reading, Unmeasured, open_meter
from muster.linux.proc import descendants
from muster.linux.signals import Signals, send
from muster.linux.watch import readable
from muster.records.files import read_object
from muster.records.layout import NodeDir

NICE = 10
DEVICES = 0.004  # seconds of CPU that reading the devices may take at a tick


def main(argv: list[str]) -> int:
    folder, interval, *descriptor = argv
    os.nice(NICE)
    Sampler(NodeDir(folder), float(interval), int(descriptor[0]) if descriptor else None).run()
    return 0


class Sampler:
    """`bmc` is a socket to the process that has the password of the BMC, where there is one."""

    def __init__(self, folder: NodeDir, interval: float, bmc: int | None = None) -> None:
        self._signals = Signals((signal.SIGTERM, signal.SIGINT))
        self._parent = os.getppid()
        self._power = os.environ.pop(power.VARIABLE, "")  # programs that are started from here do not need it
        self._bmc = bmc
        self._interval = interval
        self._facts: dict[str, Any] = read_object(folder.facts)
        self._writer = SampleWriter(folder.metrics, interval, hardware.machine_id())
        self._background = BackgroundThread()
        self._tree = ProcessTree(self._parent, os.getpid())
        self._system = SystemRecord(folder, self._tree, self._background)
        self._sources: list[Source] = []
        self._closing: list[Any] = [self._tree]
        self._first, self._ending = True, False  # the samples for which everything is read, whatever it costs
        for name, make in (("cpu", Cpu), ("mem", Memory), ("disk", disks), ("net", network)):
            self._open(name, make)
        self._add("procs", self._tree.read)
        self._open_power()
        self._system.begin(self._open_devices())

    # -- sources

    def _open(self, name: str, make: Callable[[], Any]) -> None:
        try:
            self._add(name, make().read)
        except Unmeasured as error:
            self._writer.note_missing(name, str(error))

    def _add(self, name: str, read: Read, **allowance: float) -> None:
        self._sources.append(Source(name, read, self._writer.note_missing, **allowance))

    def _open_power(self) -> None:
        try:
            sources = power.open_sources(power.settings(self._power, self._facts), self._bmc)
        except (TypeError, ValueError) as error:
            self._writer.note_missing("power", f"the settings cannot be understood: {describe(error)}")
            return
        for name, reason in sources.missing.items():
            self._writer.note_missing(name, reason)
        if sources.rapl is not None:
            self._add(sources.rapl.name, sources.rapl.read)
            self._writer.note_power(sources.rapl.name)
            self._closing.append(sources.rapl)
        for bmc in sources.bmcs:
            deliver = partial(self._deliver_watts, bmc.name)
            self._background.add(BackgroundTask(bmc.name, bmc.watts, deliver, self._writer.note_missing, power.PAUSE))
        self._closing += sources.bmcs

    def _deliver_watts(self, name: str, t: float, watts: float) -> None:
        self._writer.note_power(name)
        self._writer.add(t, Sample(power={name: watts}))

    def _open_devices(self) -> Meter | None:
        ids = [device["id"] for device in self._facts.get("devices", [])]
        try:
            meter = open_meter(self._facts.get("device", "cpu"), ids)
        except Unmeasured as error:
            self._writer.note_missing("devices", str(error))
            return None
        if meter.pause:
            deliver = partial(self._deliver_devices, meter)
            self._background.add(BackgroundTask("devices", meter.read, deliver, self._writer.note_missing, meter.pause))
        else:
            self._writer.note_devices(meter.name)
            self._add("devices", partial(self._read_devices, meter), allowance=DEVICES)
        self._closing.append(meter)
        return meter

    def _read_devices(self, meter: Meter, moment: float) -> Sample:
        whole, self._first = self._ending or self._first, False
        return self._of_devices(meter, meter.read(whole))

    def _deliver_devices(self, meter: Meter, t: float, readings: dict[str, Reading]) -> None:
        self._writer.note_devices(meter.name)
        self._system.add_devices(meter)
        self._writer.add(t, self._of_devices(meter, readings))

    def _of_devices(self, meter: Meter, readings: dict[str, Reading]) -> Sample:
        for name, reason in meter.missing.items():
            self._writer.note_missing("devices." + name, reason)
        return Sample(devices={id: reading.known() for id, reading in readings.items()})

    # -- time

    def run(self) -> None:
        began = time.monotonic()
        while not self._signals.take() and os.getppid() == self._parent:
            self._sample()
            ticks = int((time.monotonic() - began) / self._interval) + 1  # skips missed ticks
            readable([self._signals.fileno()], began + ticks * self._interval - time.monotonic())
        self._end()

    def _sample(self) -> None:
        self._system.refresh()
        self._background.deliver()
        sample = Sample()
        t, moment = time.time(), time.monotonic()
        for source in self._sources:
            sample.update(source.read(moment) if self._ending else source.poll(moment))
        self._writer.add(t, sample)

    def _end(self) -> None:
        self._ending = True
        self._sample()  # so that counters cover the whole time
        self._writer.close()
        self._system.write()
        if self._background.busy:
            for pid in descendants(os.getpid()):
                send(pid)
        for source in self._closing:
            with suppress(Exception):  # the thread may be using it; all samples are written
                source.close()

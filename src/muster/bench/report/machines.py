"""The machines of a result as a table shows them."""

from collections import Counter
from dataclasses import dataclass

from muster.bench.model.result import Cpu, Machine
from muster.bench.report.figures import NONE, size


@dataclass(frozen=True)
class MachineRow:
    node: int
    host: str
    processors: str
    memory: str
    devices: str
    software: str


def row(machine: Machine) -> MachineRow:
    cpu = machine.cpu or Cpu()
    processors = [cpu.model or NONE, cpu.threads and f"{cpu.threads}×"]
    devices = Counter(device.name for device in machine.devices)
    python = machine.python and f"Python {machine.python}"
    software = [machine.os, machine.kernel, machine.runtime, machine.driver, python]
    return MachineRow(
        machine.node,
        machine.host or NONE,
        " · ".join(part for part in processors if part),
        size(machine.memory),
        ", ".join(f"{count} × {name}" for name, count in devices.items()) or NONE,
        " · ".join(part for part in software if part) or NONE,
    )

"""What the machines did during a run, drawn from the samples of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from muster.bench.model import Phase
from muster.bench.report.drawings.charts import LineChart, line_chart
from muster.bench.report.drawings.timeline import Pick, Sample, Series, Values, Window, lines_or_bands, sampled
from muster.bench.report.figures import duration
from muster.bench.report.phrase import Phrase, say

Samples = Mapping[int, Sequence[Sample]]  # the lines of metrics.jsonl by node

GIB, MB = float(1 << 30), 1e6
DEVICES = 256  # of more, each machine is drawn
PACKAGES = "rapl"  # any other power of a node is that of the whole server


@dataclass(frozen=True)
class Machine:
    """One machine: nodes that share it measured the same."""

    name: Phrase
    node: int
    header: Sample  # of metrics.jsonl: what was measured, and why other things were not
    lines: Sequence[Sample]

    @property
    def devices(self) -> list[str]:
        found = {device for line in self.lines for device in line.get("devices", {})}
        return sorted(found, key=lambda device: (len(device), device))


def charts(id: str, samples: Samples, window: Window, phases: Mapping[str, Phase]) -> tuple[list[LineChart], list[Phrase]]:
    """The drawings that there are samples for, and why others are not there."""
    machines = _machines(samples)
    drawn: list[LineChart] = []
    if not any(machine.lines for machine in machines):
        return drawn, [say("no_samples")]
    window = Window.of(window.start, window.end, _interval(machines))
    note = say("binned", time=duration(window.bin)) if window.bin > 1.5 * _interval(machines) else None
    for key, unit, series in _all(machines, window):
        if any(value is not None for line in series for value in line.values):
            drawn.append(line_chart(f"{id}-{key}", say(f"chart.{key}"), unit, series, window, phases, note))
    return drawn, _missing(machines)


def totals(samples: Samples, window: Window) -> list[tuple[Phrase, Values]]:
    """Power of all machines together, mean utilisation of their devices and mean CPU, each as one line."""
    machines = [machine for machine in _machines(samples) if machine.lines]
    picks: dict[str, Pick] = {"power": _whole, "util": _device_mean("util", 1.0), "cpu": _value("cpu", 1.0)}
    found: list[tuple[Phrase, Values]] = []
    for key, pick in picks.items():
        many = [sampled(machine.lines, pick, window) for machine in machines]
        columns = [[value for value in column if value is not None] for column in zip(*many, strict=True)]
        combine = sum if key == "power" else fmean
        found.append((say(f"chart.{key}"), [combine(column) if column else None for column in columns]))
    return found


def _all(machines: Sequence[Machine], window: Window) -> list[tuple[str, str, list[Series]]]:
    return [
        ("power", "W", _power(machines, window)),
        ("util", "%", _of_devices(machines, "util", 1.0, window)),
        ("device_memory", "GiB", _of_devices(machines, "mem", GIB, window)),
        ("temperature", "°C", _of_devices(machines, "temp", 1.0, window)),
        ("cpu", "%", _of_machines(machines, {"": "cpu"}, 1.0, window)),
        ("memory", "GiB", _of_machines(machines, {"": "mem"}, GIB, window)),
        ("network", "MB/s", _of_machines(machines, {"net_in": "net_in", "net_out": "net_out"}, MB, window)),
        ("disk", "MB/s", _of_machines(machines, {"disk_read": "disk_read", "disk_write": "disk_write"}, MB, window)),
    ]


def _machines(samples: Samples) -> list[Machine]:
    headers = {node: next((line for line in samples[node] if "format" in line), {}) for node in sorted(samples)}
    nodes: dict[Any, list[int]] = {}
    for node, header in headers.items():
        nodes.setdefault(header.get("machine") or ("node", node), []).append(node)
    machines = []
    for first, *others in nodes.values():
        name = say("machine", nodes=_numbers([first, *others])) if others else say("node", node=first)
        machines.append(Machine(name, first, headers[first], [line for line in samples[first] if "t" in line]))
    return machines


def _numbers(nodes: Sequence[int]) -> str:
    consecutive = nodes[-1] - nodes[0] == len(nodes) - 1
    return f"{nodes[0]}–{nodes[-1]}" if consecutive and len(nodes) > 2 else ", ".join(map(str, nodes))


def _interval(machines: Sequence[Machine]) -> float:
    return float(next((machine.header["interval"] for machine in machines if machine.header.get("interval")), 1.0))


def _power(machines: Sequence[Machine], window: Window) -> list[Series]:
    picks: dict[str, Pick] = {"server": _server, "devices": _devices, "packages": _packages}
    groups: dict[Phrase, list[tuple[Phrase, Values]]] = {}
    for key, pick in picks.items():
        for machine in machines:
            values = sampled(machine.lines, pick, window)
            if any(value is not None for value in values):
                what = say(f"source.{key}")
                groups.setdefault(what, []).append((say("of_node", what=what, node=machine.name), values))
    return lines_or_bands(groups, window)


def _server(line: Sample) -> float | None:
    return next((watts for source, watts in line.get("power", {}).items() if source != PACKAGES), None)


def _packages(line: Sample) -> float | None:
    watts: float | None = line.get("power", {}).get(PACKAGES)
    return watts


def _devices(line: Sample) -> float | None:
    watts = [device["power"] for device in line.get("devices", {}).values() if device.get("power") is not None]
    return sum(watts) if watts else None


def _whole(line: Sample) -> float | None:
    """The power of a machine: as the server says, else as far as its parts were measured."""
    server = _server(line)
    parts = [watts for watts in (_devices(line), _packages(line)) if watts is not None]
    return server if server is not None else sum(parts) if parts else None


def _of_devices(machines: Sequence[Machine], key: str, factor: float, window: Window) -> list[Series]:
    """A quantity of each device; where there are very many of them, its mean in each machine."""
    devices = {machine.node: machine.devices for machine in machines}
    if sum(map(len, devices.values())) > DEVICES:
        means = [(machine.name, sampled(machine.lines, _device_mean(key, factor), window)) for machine in machines]
        return lines_or_bands({say("hardware"): means}, window)
    found: list[tuple[Phrase, Values]] = []
    for machine in machines:
        for device in devices[machine.node]:
            name = say("device", node=machine.node, device=device)
            found.append((name, sampled(machine.lines, _device_value(device, key, factor), window)))
    return lines_or_bands({say("devices"): found}, window) if found else []


def _device_mean(key: str, factor: float) -> Pick:
    def pick(line: Sample) -> float | None:
        values = [device[key] for device in line.get("devices", {}).values() if device.get(key) is not None]
        return sum(values) / len(values) / factor if values else None

    return pick


def _device_value(device: str, key: str, factor: float) -> Pick:
    def pick(line: Sample) -> float | None:
        value = line.get("devices", {}).get(device, {}).get(key)
        return None if value is None else value / factor

    return pick


def _of_machines(machines: Sequence[Machine], keys: Mapping[str, str], factor: float, window: Window) -> list[Series]:
    """`keys` are what a line is called beside its machine, and the key of the samples."""
    groups: dict[Phrase, list[tuple[Phrase, Values]]] = {}
    for label, key in keys.items():
        for machine in machines:
            values = sampled(machine.lines, _value(key, factor), window)
            name = say("of_node", what=say(label), node=machine.name) if label else machine.name
            groups.setdefault(say(label) if label else say("hardware"), []).append((name, values))
    return lines_or_bands(groups, window)


def _value(key: str, factor: float) -> Pick:
    def pick(line: Sample) -> float | None:
        value = line.get(key)
        return None if value is None else value / factor

    return pick


def _missing(machines: Sequence[Machine]) -> list[Phrase]:
    """Why power or devices were not measured, each reason once."""
    found: dict[Phrase, None] = {}
    for machine in machines:
        reasons = machine.header.get("missing") or {}
        for key in ("power", "devices"):
            if key in reasons:
                found[say("not_sampled", what=say(key), why=reasons[key])] = None
    return list(found)

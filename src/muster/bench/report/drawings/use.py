"""Charts of what the machines did during a run, drawn from the samples of its nodes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from muster.bench.model.result import Phase, Window
from muster.bench.report.drawings.charts import LineChart, line_chart
from muster.bench.report.drawings.timeline import Bins, Series, Values, lines_or_bands
from muster.bench.report.figures import duration
from muster.bench.report.phrase import Phrase, say
from muster.bench.samples import NodeSamples, TimeSeries

Samples = Mapping[int, NodeSamples]  # by node

GIB, MB = float(1 << 30), 1e6
DEVICES = 256  # of more, each machine is drawn
PACKAGES = "rapl"  # any other power of a node is that of the whole server


@dataclass(frozen=True)
class Machine:
    """One machine: nodes that share it measured the same."""

    name: Phrase
    samples: NodeSamples  # of its first node

    @property
    def devices(self) -> list[str]:
        return sorted(self.samples.devices, key=lambda device: (len(device), device))

    def of_devices(self, key: str) -> list[TimeSeries]:
        return [columns[key] for columns in self.samples.devices.values()]

    def server_power(self, bins: Bins) -> Values:
        sources = self.samples.power.items()
        return _binned(next((series for source, series in sources if source != PACKAGES), TimeSeries()), bins)

    def device_power(self, bins: Bins) -> Values:
        return _combined(self.of_devices("power"), sum, bins)

    def package_power(self, bins: Bins) -> Values:
        return _binned(self.samples.power[PACKAGES], bins)

    def total_power(self, bins: Bins) -> Values:
        """The power of the server if that was measured, else the sum of the parts that were."""
        server = self.server_power(bins)
        parts = [self.device_power(bins), self.package_power(bins)]
        return server if any(value is not None for value in server) else _reduced(parts, sum)


def charts(id: str, samples: Samples, window: Window, phases: Mapping[str, Phase]) -> tuple[list[LineChart], list[Phrase]]:
    """The charts that there are samples for, and why others are missing."""
    machines = _machines(samples)
    drawn: list[LineChart] = []
    if not any(machine.samples for machine in machines):
        return drawn, [say("no_samples")]
    interval = machines[0].samples.interval
    bins = Bins.fit(window, interval)
    note = say("binned", time=duration(bins.width)) if bins.width > 1.5 * interval else None
    for key, unit, series in _all(machines, bins):
        if any(value is not None for line in series for value in line.values):
            drawn.append(line_chart(f"{id}-{key}", say(f"chart.{key}"), unit, series, window, phases, note))
    return drawn, _missing(machines)


def totals(samples: Samples, bins: Bins) -> list[tuple[Phrase, Values]]:
    """Power of all machines together, mean utilisation of their devices and mean CPU, each as one line."""
    machines = [machine for machine in _machines(samples) if machine.samples]
    return [
        (say("chart.power"), _reduced([machine.total_power(bins) for machine in machines], sum)),
        (say("chart.util"), _reduced([_combined(machine.of_devices("util"), fmean, bins) for machine in machines], fmean)),
        (say("chart.cpu"), _reduced([_binned(machine.samples.own["cpu"], bins) for machine in machines], fmean)),
    ]


def _all(machines: Sequence[Machine], bins: Bins) -> list[tuple[str, str, list[Series]]]:
    return [
        ("power", "W", _power(machines, bins)),
        ("util", "%", _of_devices(machines, "util", 1.0, bins)),
        ("device_memory", "GiB", _of_devices(machines, "mem", GIB, bins)),
        ("temperature", "°C", _of_devices(machines, "temp", 1.0, bins)),
        ("cpu", "%", _of_machines(machines, ["cpu"], 1.0, bins)),
        ("memory", "GiB", _of_machines(machines, ["mem"], GIB, bins)),
        ("network", "MB/s", _of_machines(machines, ["net_in", "net_out"], MB, bins)),
        ("disk", "MB/s", _of_machines(machines, ["disk_read", "disk_write"], MB, bins)),
    ]


def _machines(samples: Samples) -> list[Machine]:
    nodes: dict[str, list[int]] = {}
    for node in sorted(samples):
        nodes.setdefault(samples[node].machine, []).append(node)
    machines = []
    for first, *others in nodes.values():
        name = say("machine", nodes=_numbers([first, *others])) if others else say("node", node=first)
        machines.append(Machine(name, samples[first]))
    return machines


def _numbers(nodes: Sequence[int]) -> str:
    consecutive = nodes[-1] - nodes[0] == len(nodes) - 1
    return f"{nodes[0]}–{nodes[-1]}" if consecutive and len(nodes) > 2 else ", ".join(map(str, nodes))


def _power(machines: Sequence[Machine], bins: Bins) -> list[Series]:
    sources = {"server": Machine.server_power, "devices": Machine.device_power, "packages": Machine.package_power}
    groups: dict[Phrase, list[tuple[Phrase, Values]]] = {}
    for key, power in sources.items():
        for machine in machines:
            values = power(machine, bins)
            if any(value is not None for value in values):
                what = say(f"source.{key}")
                groups.setdefault(what, []).append((say("of_node", what=what, node=machine.name), values))
    return lines_or_bands(groups, bins)


def _of_devices(machines: Sequence[Machine], key: str, factor: float, bins: Bins) -> list[Series]:
    """A quantity of each device; where there are very many of them, its mean in each machine."""
    if sum(len(machine.devices) for machine in machines) > DEVICES:
        means = [(machine.name, _scaled(_combined(machine.of_devices(key), fmean, bins), factor)) for machine in machines]
        return lines_or_bands({say("hardware"): means}, bins)
    found: list[tuple[Phrase, Values]] = []
    for machine in machines:
        for device in machine.devices:
            name = say("device", node=machine.samples.node, device=device)
            found.append((name, _scaled(_binned(machine.samples.devices[device][key], bins), factor)))
    return lines_or_bands({say("devices"): found}, bins) if found else []


def _of_machines(machines: Sequence[Machine], keys: Sequence[str], factor: float, bins: Bins) -> list[Series]:
    """A line for each machine and key of the samples; of several keys, each is named."""
    groups: dict[Phrase, list[tuple[Phrase, Values]]] = {}
    for key in keys:
        what = say(key) if len(keys) > 1 else say("hardware")
        for machine in machines:
            name = say("of_node", what=what, node=machine.name) if len(keys) > 1 else machine.name
            groups.setdefault(what, []).append((name, _scaled(_binned(machine.samples.own[key], bins), factor)))
    return lines_or_bands(groups, bins)


def _binned(series: TimeSeries, bins: Bins) -> Values:
    return bins.means(zip(series.times, series.values, strict=True))


def _combined(many: Iterable[TimeSeries], combine: Callable[[list[float]], float], bins: Bins) -> Values:
    """Devices that were sampled at the same moments, combined into one line."""
    by_time: dict[float, list[float]] = {}
    for series in many:
        for time, value in zip(series.times, series.values, strict=True):
            by_time.setdefault(time, []).append(value)
    return bins.means((time, combine(values)) for time, values in by_time.items())


def _reduced(many: Sequence[Values], combine: Callable[[list[float]], float]) -> Values:
    """Several lines combined into one, bin by bin."""
    columns = [[value for value in column if value is not None] for column in zip(*many, strict=True)]
    return [combine(column) if column else None for column in columns]


def _scaled(values: Values, factor: float) -> Values:
    return [None if value is None else value / factor for value in values]


def _missing(machines: Sequence[Machine]) -> list[Phrase]:
    """Why power or devices were not measured, each reason once."""
    reasons = [(key, machine.samples.missing.get(key)) for machine in machines for key in ("power", "devices")]
    return list(dict.fromkeys(say("not_sampled", what=say(key), why=why) for key, why in reasons if why is not None))

"""The power, energy and efficiency of a run and its nodes. Nodes of one machine share its meters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.energy import energy
from muster.bench.energy.energy import Meter
from muster.bench.model.result import BOTH, DEVICES, PACKAGES, SERVER, DevicePower, NodePower, Power, RunPower, Window
from muster.bench.samples import NodeSamples, TimeSeries
from muster.metrics import numbers
from muster.metrics.values import MetricTotals, RankReport, Value

BMCS = ("redfish", "ipmi")  # sources that measure the whole server
KEYS = ("idle", "average", "max", "joules", "samples_per_joule", "utilisation")


@dataclass(frozen=True)
class _Meters:
    """The meters of a node, and what they measure."""

    of: str | None
    meters: tuple[Meter, ...]
    reason: str = ""


def measure(samples: Sequence[NodeSamples], window: Window | None, first_rank: float | None, rate: MetricTotals) -> RunPower:
    """The power of a run; `rate` is its throughput."""
    if window is None:
        return RunPower(Power(reasons=dict.fromkeys(KEYS, "the attempt has no recorded start and end")), None)
    meters = {of.node: _meters(of) for of in samples}
    sharing = Counter(of.machine for of in samples)
    nodes = []
    for of in samples:
        found = meters[of.node]
        shared = sharing[of.machine] > 1 and any(meter.whole_machine for meter in found.meters)
        alone = Value(reason="the node shares the power of its machine with others")
        own = alone if shared else _of_node(rate, of.node, window)
        nodes.append(NodePower(of.node, _power(found, window, first_rank, own, [of]), _devices(of, window)))
    whole = _power(_together(meters), window, first_rank, _of_all(rate, window), samples)
    return RunPower(whole, window, tuple(nodes))


def combine(runs: Sequence[tuple[str, Power]]) -> Power:
    """The mean over repeats; the highest of their maxima."""
    kinds = list(dict.fromkeys(power.of for _, power in runs))
    methods = list(dict.fromkeys(power.method for _, power in runs))
    figures: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for key in KEYS:
        known = [value for _, power in runs if (value := getattr(power, key)) is not None]
        if not runs or len(known) < len(runs):
            reasons[key] = _reason("run", {run: power.reasons[key] for run, power in runs if key in power.reasons}, len(runs))
        elif len(kinds) > 1 and key != "utilisation":
            reasons[key] = "the runs measured the power of different things"
        else:
            figures[key] = max(known) if key == "max" else numbers.mean(known)
    of, method = (found[0] if len(found) == 1 else None for found in (kinds, methods))
    return Power(of=of, method=method, reasons=reasons, **figures)


def _reason(kind: str, reasons: Mapping[Any, str], count: int) -> str:
    """The first reason, with the name of whose it is unless all `count` have the same."""
    for name, reason in reasons.items():
        return reason if len(reasons) == count and len(set(reasons.values())) == 1 else f"{kind} {name}: {reason}"
    return f"there was no {kind}"


def _power(found: _Meters, window: Window, first_rank: float | None, made: Value, samples: Sequence[NodeSamples]) -> Power:
    figures = {"utilisation": _utilisation(samples, window)}
    used = [energy.joules(meter, window) for meter in found.meters]
    if found.of is None:
        none = Value(reason=found.reason)
        figures |= {"idle": none, "average": none, "max": none, "joules": none, "samples_per_joule": none}
    else:
        unknown = next((figure for figure in used if figure.value is None), None)
        spent = unknown or Value(numbers.total([figure.value for figure in used if figure.value is not None]))
        figures["joules"] = spent
        figures["average"] = Value(spent.value / window.length) if spent.value is not None else spent
        figures["max"] = energy.peak(found.meters, window)
        unstarted = Value(reason="it is not known when the ranks started")
        figures["idle"] = energy.idle(found.meters, first_rank) if first_rank is not None else unstarted
        figures["samples_per_joule"] = _efficiency(made, window, spent)
    methods = sorted({figure.method for figure in used if figure.method})
    reasons = {key: figure.reason or "" for key, figure in figures.items() if figure.value is None}
    known = {key: figure.value for key, figure in figures.items()}
    method = " and ".join(methods) if "joules" not in reasons else None
    return Power(of=found.of, method=method, reasons=reasons, **known)


def _efficiency(made: Value, window: Window, spent: Value) -> Value:
    """Samples per joule; outside of the phase `proc` the number of samples is not known."""
    if window.phase != "proc":
        return Value(reason='it is not known when the ranks trained; `record.phase("proc")` or `record.timer` tells it')
    if made.value is None:
        return Value(reason=made.reason)
    if spent.value is None:
        return Value(reason=spent.reason)
    return Value(made.value / spent.value) if spent.value > 0 else Value(reason="no energy was measured")


def _of_node(rate: MetricTotals, node: int, window: Window) -> Value:
    """How many samples the ranks of a node made in the window."""
    value = rate.nodes.get(node, Value(reason="that of a node alone is not known"))
    return _made(value, [value for rank, value in rate.ranks if rank.node == node], rate, window)


def _of_all(rate: MetricTotals, window: Window) -> Value:
    """How many samples all ranks made in the window: where each node trains alone, the result is the mean of nodes."""
    nodes = [node.value for node in rate.nodes.values() if node.value is not None]
    added = nodes and (rate.metric.of == "world" or rate.metric.over == "sum")
    value = Value(numbers.total(nodes)) if added and rate.whole.value is not None else rate.whole
    return _made(value, [value for _, value in rate.ranks], rate, window)


def _made(value: Value, ranks: Sequence[RankReport], rate: MetricTotals, window: Window) -> Value:
    """The samples that step timers counted, without pauses; without timers the throughput times the window."""
    if value.value is None:
        return Value(reason=f"throughput: {value.reason}")
    counts = [rank.step_stats["samples"] for rank in ranks if rank.step_stats and "samples" in rank.step_stats]
    timed = rate.metric.of == "rank" and rate.metric.over == "sum" and len(counts) == len(ranks) > 0
    return Value(numbers.total(counts) if timed else value.value * window.length)


def _meters(samples: NodeSamples) -> _Meters:
    """The meters of a node: that of its server where there is one, else its devices and CPU packages."""
    for source in BMCS:
        if samples.power.get(source):
            meter = Meter(source, samples.machine, samples.power[source], interval=samples.interval)
            return _Meters(SERVER, (meter,))
    devices = list(_device_meters(samples).values())
    if not all(meter.watts or meter.counter for meter in devices):
        devices = []  # some are not measured, so the sum would be too low
    packages = []
    if samples.power.get("rapl") or samples.energy.get("rapl"):
        packages = [Meter("rapl", samples.machine, samples.power["rapl"], samples.energy["rapl"], samples.interval)]
    of = BOTH if devices and packages else DEVICES if devices else PACKAGES if packages else None
    missing = [samples.missing[key] for key in ("samples", "power", "devices") if samples.missing.get(key)]
    reason = "; ".join(dict.fromkeys(missing)) or "no source of power was sampled"
    return _Meters(of, (*devices, *packages), "" if of else reason)


def _together(meters: Mapping[int, _Meters]) -> _Meters:
    """The meters of all nodes; one that several nodes share counts once."""
    if not meters:
        return _Meters(None, (), "no node was sampled")
    missing = {node: found.reason for node, found in meters.items() if found.of is None}
    if missing:
        return _Meters(None, (), _reason("node", missing, len(meters)))
    kinds = dict.fromkeys(found.of for found in meters.values())
    if len(kinds) > 1:
        return _Meters(None, (), f"nodes measured the power of different things: {' and '.join(map(str, kinds))}")
    distinct: dict[tuple[str, str], Meter] = {}
    for found in meters.values():
        for meter in found.meters:
            kept = distinct.setdefault((meter.machine, meter.name), meter)
            if len(meter.watts.times) > len(kept.watts.times):
                distinct[meter.machine, meter.name] = meter
    return _Meters(next(iter(kinds)), tuple(distinct.values()))


def _utilisation(samples: Sequence[NodeSamples], window: Window) -> Value:
    """The mean over devices and time; none if a device does not report its utilisation."""
    series: dict[tuple[str, str], TimeSeries] = {}
    reasons: dict[int, str] = {}
    for of in samples:
        loads = {(of.machine, id): columns["util"] for id, columns in of.devices.items()}
        if not loads or not all(load.within(window) for load in loads.values()):
            reasons[of.node] = of.missing.get("samples") or of.missing.get("devices") or "a device shows no utilisation"
        series |= loads
    if reasons or not series:
        return Value(reason=_reason("node", reasons, len(samples)))
    return Value(numbers.mean([numbers.mean(load.within(window)) for load in series.values()]))


def _devices(samples: NodeSamples, window: Window) -> tuple[DevicePower, ...]:
    """Power, energy and utilisation of each device of a node."""
    found = []
    for id, meter in _device_meters(samples).items():
        spent = energy.joules(meter, window).value
        average = spent / window.length if spent is not None else None
        used = samples.devices[id]["util"].mean(window)
        found.append(DevicePower(id, average, energy.peak([meter], window).value, spent, used))
    return tuple(found)


def _device_meters(samples: NodeSamples) -> dict[str, Meter]:
    """The meter of each device of a node, by its id."""
    return {
        id: Meter(f"device {id}", samples.machine, columns["power"], columns["energy"], samples.interval, whole_machine=False)
        for id, columns in sorted(samples.devices.items())
    }

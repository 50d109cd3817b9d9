"""The power and energy of a run and its nodes, and what came of it. Nodes of one machine share its meters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.energy import energy
from muster.bench.energy.energy import Figure, Meter, Window
from muster.bench.energy.samples import Samples, Series
from muster.bench.model import DevicePower, NodePower, Power, PowerWindow, RunPower
from muster.bench.model.power import BOTH, DEVICES, PACKAGES, SERVER
from muster.metrics import numbers
from muster.metrics.observed import Reading
from muster.metrics.totals import Measured, Value

BMCS = ("redfish", "ipmi")  # sources that tell the power of the whole server
KEYS = ("idle", "average", "max", "joules", "samples_per_joule", "utilisation")


@dataclass(frozen=True)
class _Meters:
    """What measures the power of a node, and what that is the power of."""

    of: str | None
    meters: tuple[Meter, ...]
    reason: str = ""


def measure(samples: Sequence[Samples], window: Window | None, first_rank: float | None, rate: Measured) -> RunPower:
    """The power of a run; `rate` is its throughput."""
    if window is None:
        reason = "the attempt has no recorded start and end"
        return RunPower(_missing(reason), None)
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
    return RunPower(whole, PowerWindow(window.start, window.end, window.phase), tuple(nodes))


def combine(runs: Sequence[tuple[str, Power]]) -> Power:
    """The mean over repeats; the highest of their maxima."""
    kinds = list(dict.fromkeys(power.of for _, power in runs))
    methods = list(dict.fromkeys(power.method for _, power in runs))
    figures: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for key in KEYS:
        known = [value for _, power in runs if (value := getattr(power, key)) is not None]
        if not runs or len(known) < len(runs):
            reasons[key] = _told("run", {run: power.reasons[key] for run, power in runs if key in power.reasons}, len(runs))
        elif len(kinds) > 1 and key != "utilisation":
            reasons[key] = "the runs measured the power of different things"
        else:
            figures[key] = max(known) if key == "max" else numbers.mean(known)
    of, method = (found[0] if len(found) == 1 else None for found in (kinds, methods))
    return Power(of=of, method=method, reasons=reasons, **figures)


def _told(kind: str, reasons: Mapping[Any, str], count: int) -> str:
    """The reason of one of `count`, with its name unless all have the same."""
    for name, reason in reasons.items():
        return reason if len(reasons) == count and len(set(reasons.values())) == 1 else f"{kind} {name}: {reason}"
    return f"there was no {kind}"


def _power(found: _Meters, window: Window, first_rank: float | None, made: Value, samples: Sequence[Samples]) -> Power:
    figures = {"utilisation": _utilisation(samples, window)}
    used = [energy.joules(meter, window) for meter in found.meters]
    if found.of is None:
        none = Figure(reason=found.reason)
        figures |= {"idle": none, "average": none, "max": none, "joules": none, "samples_per_joule": none}
    else:
        figures["joules"] = spent = _sum(used)
        figures["average"] = Figure(spent.value / window.seconds) if spent.value is not None else spent
        figures["max"] = energy.peak(found.meters, window)
        unknown = Figure(reason="it is not known when the ranks started")
        figures["idle"] = energy.idle(found.meters, first_rank) if first_rank is not None else unknown
        figures["samples_per_joule"] = _efficiency(made, window, spent)
    methods = sorted({figure.method for figure in used if figure.method})
    reasons = {key: figure.reason or "" for key, figure in figures.items() if figure.value is None}
    known = {key: figure.value for key, figure in figures.items()}
    method = " and ".join(methods) if "joules" not in reasons else None
    return Power(of=found.of, method=method, reasons=reasons, **known)


def _missing(reason: str) -> Power:
    return Power(reasons=dict.fromkeys(KEYS, reason))


def _efficiency(made: Value, window: Window, spent: Figure) -> Figure:
    """Samples per joule; outside of the phase `proc` nobody knows how many samples there were."""
    if window.phase != "proc":
        return Figure(reason='it is not known when the ranks trained; `record.phase("proc")` or `record.timer` tells it')
    if made.value is None:
        return Figure(reason=made.reason)
    if spent.value is None:
        return Figure(reason=spent.reason)
    return Figure(made.value / spent.value) if spent.value > 0 else Figure(reason="no energy was measured")


def _of_node(rate: Measured, node: int, window: Window) -> Value:
    """How many samples the ranks of a node made in the window."""
    told = rate.nodes.get(node, Value(reason="that of a node alone is not known"))
    return _made(told, [reading for seat, reading in rate.ranks if seat.node == node], rate, window)


def _of_all(rate: Measured, window: Window) -> Value:
    """How many samples all ranks made in the window: where each node trains alone, the result is the mean of nodes."""
    nodes = [node.value for node in rate.nodes.values() if node.value is not None]
    added = nodes and (rate.metric.of == "world" or rate.metric.over == "sum")
    told = Value(numbers.total(nodes)) if added and rate.whole.value is not None else rate.whole
    return _made(told, [reading for _, reading in rate.ranks], rate, window)


def _made(told: Value, readings: Sequence[Reading], rate: Measured, window: Window) -> Value:
    """What the step timers counted, which leave out pauses; without them the throughput is taken to hold all the time."""
    if told.value is None:
        return Value(reason=f"throughput: {told.reason}")
    counts = [reading.spread["samples"] for reading in readings if reading.spread and "samples" in reading.spread]
    timed = rate.metric.of == "rank" and rate.metric.over == "sum" and len(counts) == len(readings) > 0
    return Value(numbers.total(counts) if timed else told.value * window.seconds)


def _meters(samples: Samples) -> _Meters:
    """What measures a node: its server where that is measured, else its devices and CPU packages."""
    for source in BMCS:
        if samples.power.get(source):
            meter = Meter(source, samples.machine, samples.power[source], interval=samples.interval)
            return _Meters(SERVER, (meter,))
    devices = [
        Meter(f"device {id}", samples.machine, columns["power"], columns["energy"], samples.interval, whole_machine=False)
        for id, columns in sorted(samples.devices.items())
    ]
    if not all(meter.watts or meter.counter for meter in devices):
        devices = []  # those that show theirs are not the whole
    packages = []
    if samples.power.get("rapl") or samples.energy.get("rapl"):
        packages = [Meter("rapl", samples.machine, samples.power["rapl"], samples.energy["rapl"], samples.interval)]
    of = BOTH if devices and packages else DEVICES if devices else PACKAGES if packages else None
    return _Meters(of, (*devices, *packages), "" if of else _why_not(samples))


def _why_not(samples: Samples) -> str:
    said = [samples.missing[key] for key in ("samples", "power", "devices") if samples.missing.get(key)]
    return "; ".join(dict.fromkeys(said)) or "no source of power was sampled"


def _together(meters: Mapping[int, _Meters]) -> _Meters:
    """What measures all nodes; a meter that several of them share counts once."""
    if not meters:
        return _Meters(None, (), "no node was sampled")
    missing = {node: found.reason for node, found in meters.items() if found.of is None}
    if missing:
        return _Meters(None, (), _told("node", missing, len(meters)))
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


def _sum(figures: Sequence[Figure]) -> Figure:
    for figure in figures:
        if figure.value is None:
            return figure
    return Figure(numbers.total([figure.value for figure in figures if figure.value is not None]))


def _utilisation(samples: Sequence[Samples], window: Window) -> Figure:
    """The mean over devices and time; one that does not show its own leaves the mean open."""
    series: dict[tuple[str, str], Series] = {}
    reasons: dict[int, str] = {}
    for of in samples:
        loads = {(of.machine, id): columns["util"] for id, columns in of.devices.items()}
        if not loads or not all(load.between(window.start, window.end) for load in loads.values()):
            reasons[of.node] = of.missing.get("samples") or of.missing.get("devices") or "a device shows no utilisation"
        series |= loads
    if reasons or not series:
        return Figure(reason=_told("node", reasons, len(samples)))
    return Figure(numbers.mean([numbers.mean(load.between(window.start, window.end)) for load in series.values()]))


def _devices(samples: Samples, window: Window) -> tuple[DevicePower, ...]:
    """What each device of a node used."""
    found = []
    for id, columns in sorted(samples.devices.items()):
        meter = Meter(f"device {id}", samples.machine, columns["power"], columns["energy"], samples.interval)
        spent = energy.joules(meter, window).value
        load = columns["util"].between(window.start, window.end)
        found.append(
            DevicePower(
                id,
                spent / window.seconds if spent is not None else None,
                energy.peak([meter], window).value,
                spent,
                numbers.mean(load) if load else None,
            )
        )
    return tuple(found)

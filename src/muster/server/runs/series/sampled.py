"""What was sampled of the machines of a run: utilisation, memory, power and temperature, by device, by node or as a mean."""

from collections.abc import Iterator

from muster.bench.samples import NodeSamples, TimeSeries
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.records.untrusted import plain
from muster.server.runs.series.model import By, Chart, Line
from muster.server.runs.series.thinned import Grid, Point, objects

BUDGET = 8 << 20  # bytes that are read of all nodes together
LEAST = 1 << 15
NODES = 128  # that are read
LINES = 32
# name, unit, key of a device, factor
OF_DEVICES = (
    ("device_util", "%", "util", 1.0),
    ("device_mem", "GB", "mem", 1e-9),
    ("device_power", "W", "power", 1.0),
    ("device_temp", "°C", "temp", 1.0),
)
OF_NODES = (
    ("cpu", "%", "cpu", 1.0),
    ("mem", "GB", "mem", 1e-9),
    ("procs_cpu", "%", "procs_cpu", 1.0),
    ("procs_mem", "GB", "procs_mem", 1e-9),
    ("net_in", "MB/s", "net_in", 1e-6),
    ("net_out", "MB/s", "net_out", 1e-6),
    ("disk_read", "MB/s", "disk_read", 1e-6),
    ("disk_write", "MB/s", "disk_write", 1e-6),
)
Named = tuple[str, int, str, list[Point]]  # kind, number of the node, name, points


def charts(attempt: AttemptDir, by: By, start: float) -> list[Chart]:
    """One chart for each quantity that was sampled, over seconds since `start`."""
    nodes, ahead = attempt.node_indexes(), clocks.ahead(attempt)
    read = [sample for node in nodes[:NODES] if (sample := _node(attempt, node, len(nodes), ahead.get(node, 0.0)))]
    found = []
    for name, unit, key, factor in OF_DEVICES:
        found.append(_chart(name, unit, list(_devices(read, key, factor, start)), by, 0))
    found.append(_chart("power", "W", list(_power(read, start)), by, 0))
    for name, unit, key, factor in OF_NODES:
        lines = [("node", sample.node, "", _points(sample.own[key], factor, start)) for sample in read]
        found.append(_chart(name, unit, lines, by, max(0, len(nodes) - NODES)))
    return [chart for chart in found if chart.lines]


def _node(attempt: AttemptDir, node: int, nodes: int, ahead: float) -> NodeSamples | None:
    folder = attempt.node(node)
    try:
        rows = [plain(row) for row in objects(folder.metrics, folder.path, max(LEAST, BUDGET // nodes))]
        return NodeSamples.from_rows(node, rows, ahead)
    except OSError:
        return None


def _devices(read: list[NodeSamples], key: str, factor: float, start: float) -> Iterator[Named]:
    for sample in read:
        for device, columns in sample.devices.items():
            yield "device", sample.node, str(device)[:20], _points(columns[key], factor, start)


def _power(read: list[NodeSamples], start: float) -> Iterator[Named]:
    for sample in read:
        for source, series in sample.power.items():
            yield "node", sample.node, str(source)[:20], _points(series, 1.0, start)


def _points(series: TimeSeries, factor: float, start: float) -> list[Point]:
    return [(time - start, value * factor) for time, value in zip(series.times, series.values, strict=True)]


def _chart(name: str, unit: str, lines: list[Named], by: By, left_out: int) -> Chart:
    known = [line for line in lines if line[3]]
    if not known:
        return Chart(name, unit, "time", [], [])
    grid = Grid.over([place for line in known for place, _ in line[3]])
    if by == "mean":
        made = [Line("mean", 0, *grid.mean(points for *_, points in known))]
    elif by == "node":
        nodes: dict[tuple[int, str], list[list[Point]]] = {}
        for kind, node, source, points in known:
            nodes.setdefault((node, "" if kind == "device" else source), []).append(points)
        made = [Line("node", node, *grid.mean(members), name=source) for (node, source), members in list(nodes.items())[:LINES]]
        left_out += max(0, len(nodes) - LINES)
    else:
        made = [Line(kind, node, *grid.averaged(points), name=label) for kind, node, label, points in known[:LINES]]
        left_out += max(0, len(known) - LINES)
    return Chart(name, unit, "time", made, [], left_out)

"""The records of a benchmark as frozen dataclasses: `bench.json` and `result.json`, validated when they are read."""

from muster.bench.model.bench import BenchRecord
from muster.bench.model.power import DevicePower, NodePower, Power, PowerWindow, RunPower
from muster.bench.model.provenance import Machine, Provenance, Times
from muster.bench.model.result import FORMAT, Limit, Metric, Result, Target, Verdict
from muster.bench.model.run import NodeUse, NodeValue, Phase, RankUse, RankValue, RunMetric, RunResult, SeriesPoint, Statistics

__all__ = [
    "FORMAT",
    "BenchRecord",
    "DevicePower",
    "Limit",
    "Machine",
    "Metric",
    "NodePower",
    "NodeUse",
    "NodeValue",
    "Phase",
    "Power",
    "PowerWindow",
    "Provenance",
    "RankUse",
    "RankValue",
    "Result",
    "RunMetric",
    "RunPower",
    "RunResult",
    "SeriesPoint",
    "Statistics",
    "Target",
    "Times",
    "Verdict",
]

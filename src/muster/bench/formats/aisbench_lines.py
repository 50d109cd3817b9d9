"""Results in the words of AISBench: the lines that its tools print, and `train_result_info`. What was not measured is null."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from muster.bench.energy.power import Power
from muster.bench.phases import ALWAYS, Phase
from muster.metrics.values import Value

KEYS = (
    "accuracy",
    "average_power",
    "dataload_end_time",
    "dataload_start_time",
    "efficientcy",
    "energy_consumption",
    "max_power",
    "prepare_end_time",
    "prepare_start_time",
    "proc_end_time",
    "proc_start_time",
    "resource_util_ratio",
    "throughput_ratio",
    "total_end_time",
    "total_start_time",
)
_POWER = {
    "average_power": "average",
    "max_power": "max",
    "energy_consumption": "joules",
    "efficientcy": "samples_per_joule",
    "resource_util_ratio": "utilisation",
}


def train_result_info(
    metrics: Mapping[str, Value], power: Power, phases: Sequence[Mapping[str, Phase]], utc_offset: float
) -> dict[str, Any]:
    """The keys that AISBench's tester knows. Times are those of the last run: spans over several would be no one's."""
    found: dict[str, Any] = {name: power.figures.get(key) for name, key in _POWER.items()}
    for name, metric in (("accuracy", "accuracy"), ("throughput_ratio", "throughput")):
        value = metrics.get(metric, Value()).value
        found[name] = None if value is None else repr(value)
    last = phases[-1] if phases else {}
    for name in ALWAYS:
        found[f"{name}_start_time"] = _clock(last[name].start, utc_offset) if name in last else None
        found[f"{name}_end_time"] = _clock(last[name].end, utc_offset) if name in last else None
    return {key: found[key] for key in KEYS}


def info(result: Mapping[str, Any]) -> dict[str, Any]:
    """The `train_result_info` of a result."""
    found: dict[str, Any] = result["train_result_info"]
    return found


def shown(result: Mapping[str, Any]) -> str:
    """`train_result_info` as AISBench prints it."""
    rows = [f'   "{key}" : {json.dumps(value)}' for key, value in info(result).items()]
    return "train_result_info: {\n" + ",\n".join(rows) + "\n}"


def lines(result: Mapping[str, Any]) -> list[str]:
    """What AISBench's tools print of a result, for each of its runs. A number that is missing has no line."""
    of_run = _servers if result["scope"] == "server" else _cluster
    return [line for run in result["runs"] for line in of_run(run["metrics"])]


def _servers(metrics: Mapping[str, Any]) -> list[str]:
    return [
        f"report >> {name}_list:{metrics[name]['list']!r} average:{metrics[name]['value']!r}"
        for name in ("throughput", "accuracy")
        if metrics[name]["value"] is not None
    ]


def _cluster(metrics: Mapping[str, Any]) -> list[str]:
    throughput, accuracy = metrics["throughput"], metrics["accuracy"]
    found: list[str] = []
    if throughput["value"] is not None:
        if throughput["of"] == "rank":  # else one rank told the number of all, and nobody that of each
            found += [f"read ranksize:{len(throughput['ranks'])}"]
            found += [f"rankid:{rank['rank']} read throughput:{rank['value']!r}" for rank in throughput["ranks"]]
        found.append(f"report result total_throughput : {throughput['value']!r}")
    if accuracy["value"] is not None:
        found.append(f"report result accuracy:{accuracy['value']!r}")
    return found


def _clock(moment: float | None, utc_offset: float) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment + utc_offset))

"""Results in the words of AISBench: the lines that its tools print, and `train_result_info`. What was not measured is null."""

import json
import time
from collections.abc import Mapping

from muster.bench.model.result import Phase, Power, Result, RunMetric
from muster.bench.phases import ALWAYS
from muster.metrics.values import Value

_POWER = {
    "average_power": "average",
    "max_power": "max",
    "energy_consumption": "joules",
    "efficientcy": "samples_per_joule",
    "resource_util_ratio": "utilisation",
}


def train_result_info(
    metrics: Mapping[str, Value], power: Power, phases: Mapping[str, Phase], utc_offset: float
) -> dict[str, str | float | None]:
    """The keys that AISBench's tester knows. `phases` are those of the last run; a span over several runs means nothing."""
    found: dict[str, str | float | None] = {name: getattr(power, key) for name, key in _POWER.items()}
    for name, metric in (("accuracy", "accuracy"), ("throughput_ratio", "throughput")):
        value = metrics.get(metric, Value()).value
        found[name] = None if value is None else repr(value)
    for name in ALWAYS:
        phase = phases.get(name, Phase())
        found[f"{name}_start_time"] = _clock(phase.start, utc_offset)
        found[f"{name}_end_time"] = _clock(phase.end, utc_offset)
    return dict(sorted(found.items()))


def shown(result: Result) -> str:
    """`train_result_info` as AISBench prints it."""
    rows = [f'   "{key}" : {json.dumps(value)}' for key, value in result.train_result_info.items()]
    return "train_result_info: {\n" + ",\n".join(rows) + "\n}"


def lines(result: Result) -> list[str]:
    """The lines that AISBench's tools print for each run. A number that is missing has no line."""
    of_run = _servers if result.scope == "server" else _cluster
    return [line for run in result.runs for line in of_run(run.metrics)]


def _servers(metrics: Mapping[str, RunMetric]) -> list[str]:
    return [
        f"report >> {name}_list:{list(metrics[name].list)!r} average:{metrics[name].value!r}"
        for name in ("throughput", "accuracy")
        if metrics[name].value is not None
    ]


def _cluster(metrics: Mapping[str, RunMetric]) -> list[str]:
    throughput, accuracy = metrics["throughput"], metrics["accuracy"]
    found: list[str] = []
    if throughput.value is not None:
        if throughput.of == "rank":  # else one rank reported for all, and there is no number of each
            found += [f"read ranksize:{len(throughput.ranks)}"]
            found += [f"rankid:{rank.rank} read throughput:{rank.value!r}" for rank in throughput.ranks]
        found.append(f"report result total_throughput : {throughput.value!r}")
    if accuracy.value is not None:
        found.append(f"report result accuracy:{accuracy.value!r}")
    return found


def _clock(moment: float | None, utc_offset: float) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment + utc_offset))

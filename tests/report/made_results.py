"""Results and samples as a bench leaves them, made to measure for the tests of reports."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from muster.bench.model.result import Result
from muster.bench.samples import NodeSamples

START = 1_790_000_000.0
PHASES = (("prepare", 0.0, 8.0), ("dataload", 8.0, 20.0), ("proc", 20.0, 170.0), ("total", 0.0, 180.0))
UNITS = {"throughput": "samples/s", "accuracy": "1"}


def made_result(
    name: str = "resnet50",
    nodes: int = 2,
    per_node: int = 4,
    repeats: int = 1,
    scope: str = "cluster",
    rate: float = 1770.0,
    slow: Sequence[int] = (),
    missing: Sequence[int] = (),
    problems: Sequence[str] = (),
    power: bool = True,
    seed: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """A result; ranks in `slow` do 70 %, those in `missing` recorded nothing."""
    chance = random.Random(seed)
    runs = [
        _run(f"{name}-20261115-13{seed:02d}{index:02d}-abcd", nodes, per_node, scope, rate, slow, missing, power, chance)
        for index in range(repeats)
    ]
    metrics = {metric: _over_repeats(metric, runs) for metric in ("throughput", "accuracy")}
    return {
        "format": "muster-result/1",
        "id": f"{name}-20261115-13{seed:02d}00-{seed:04d}",
        "name": name,
        "created": START,
        "scope": scope,
        "metric": "throughput",
        "combine": "mean",
        "repeats": repeats,
        "verdict": {"passed": not problems and not missing, "problems": [*problems, *_complaints(missing, runs[0])]},
        "metrics": metrics,
        "targets": [_target(metrics["accuracy"]["value"])],
        "limits": [_limit(runs[0]["metrics"]["throughput"]["spread"])],
        "power": {key: runs[0]["power"][key] for key in runs[0]["power"] if key not in ("nodes", "window")},
        "train_result_info": {"accuracy": "0.7706197102864583", "throughput_ratio": "14151.181727494011"},
        "runs": runs,
        "provenance": _provenance(name, nodes, per_node, rate),
        **changes,
    }


def read(*results: dict[str, Any]) -> list[Result]:
    return [Result.from_json(result) for result in results]


def made_samples(result: dict[str, Any], devices: int = 4, seconds: int = 180) -> dict[str, dict[int, NodeSamples]]:
    """The samples of each node of each run."""
    chance = random.Random(7)
    nodes = len(result["runs"][0]["metrics"]["throughput"]["nodes"])
    return {
        run["run"]: {
            node: NodeSamples.from_rows(node, _lines(run["started"], node, devices, seconds, chance)) for node in range(nodes)
        }
        for run in result["runs"]
    }


def _run(
    run_id: str,
    nodes: int,
    per_node: int,
    scope: str,
    rate: float,
    slow: Sequence[int],
    missing: Sequence[int],
    power: bool,
    chance: random.Random,
) -> dict[str, Any]:
    ranks: list[dict[str, Any]] = []
    for rank in range(nodes * per_node):
        value = rate * (0.7 if rank in slow else 1.0) * chance.gauss(1.0, 0.004)
        ranks.append(
            {
                "rank": rank,
                "node": rank // per_node,
                "value": None if rank in missing else value,
                "reason": "it reported none" if rank in missing else None,
                "source": None if rank in missing else "record",
                "values": 0 if rank in missing else 15,
                "spread": {"stdev": value * 0.01, "p50": value * 1.001, "p95": value * 1.02},
                "time": START + 170,
            }
        )
    sums = [_sum([entry["value"] for entry in ranks if entry["node"] == node]) for node in range(nodes)]
    why = [None if value else "a rank is missing" for value in sums]
    of_nodes = [{"node": node, "value": sums[node], "reason": why[node]} for node in range(nodes)]
    values = sums if scope == "server" else [entry["value"] for entry in ranks]
    known = [value for value in values if value is not None]
    total = None if None in sums else fmean(known) if scope == "server" else math.fsum(known)
    shown = range(nodes * per_node) if nodes * per_node <= 64 else range(64)
    return {
        "run": run_id,
        "state": "succeeded",
        "reason": "all ranks ended with 0",
        "attempt": 1,
        "started": START,
        "ended": START + 180,
        "metrics": {
            "throughput": {
                "value": total,
                "unit": "samples/s",
                "reason": None if total else "rank 3 reported no throughput",
                "of": "rank",
                "over": "sum",
                "better": "higher",
                "ranks": ranks,
                "nodes": of_nodes,
                "list": values,
                **_statistics(known),
                "series": [
                    {"t": START + 20 + 10 * step, "rank": rank, "value": _rate(rate, rank, slow, step, chance), "step": step}
                    for rank in shown
                    if rank not in missing
                    for step in range(15)
                ],
            },
            "accuracy": _accuracy(nodes, scope, chance),
        },
        "phases": {name: {"start": START + a, "end": START + b, "seconds": b - a, "reason": None} for name, a, b in PHASES},
        "power": _power(nodes, power),
        "use": [
            {
                "node": node,
                "cpu": 41.5,
                "ranks": [{"rank": node * per_node + local, "cpu": 97.3, "mem_max": 5 << 30} for local in range(per_node)],
            }
            for node in range(nodes)
        ],
        "problems": [],
    }


def _rate(rate: float, rank: int, slow: Sequence[int], step: int, chance: random.Random) -> float:
    return rate * (0.7 if rank in slow else 1.0) * (1 - 0.3 * math.exp(-step / 1.5)) * chance.gauss(1.0, 0.01)


def _accuracy(nodes: int, scope: str, chance: random.Random) -> dict[str, Any]:
    values = [0.7706 + chance.gauss(0, 0.0005) for _ in range(nodes if scope == "server" else 1)]
    series = [
        {"t": START + 30 + 10 * epoch, "rank": 0, "value": 0.7706 * (1 - math.exp(-(epoch + 1) / 3)), "step": epoch}
        for epoch in range(15)
    ]
    return {
        "value": fmean(values),
        "unit": "1",
        "reason": None,
        "of": "world",
        "over": "mean",
        "better": "higher",
        "ranks": [],
        "nodes": [{"node": node, "value": value, "reason": None} for node, value in enumerate(values)],
        "list": values,
        **_statistics(values),
        "series": series,
    }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _statistics(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("min", "max", "mean", "stdev", "spread"))
    mean = fmean(values)
    spread = (max(values) - min(values)) / mean if len(values) > 1 else None
    return {"min": min(values), "max": max(values), "mean": mean, "stdev": pstdev(values), "spread": spread}


def _over_repeats(metric: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    values = [run["metrics"][metric]["value"] for run in runs]
    known = [value for value in values if value is not None]
    complete = len(known) == len(values)
    return {
        "value": fmean(known) if complete else None,
        "unit": UNITS[metric],
        "reason": None if complete else "rank 3 on node 0 reported no throughput",
        "better": "higher",
        "list": values,
        **_statistics(known),
    }


def _complaints(missing: Sequence[int], run: dict[str, Any]) -> list[str]:
    return [f"rank {rank} of run {run['run']} reported no throughput" for rank in missing]


def _target(value: float) -> dict[str, Any]:
    return {
        "metric": "accuracy",
        "target": 0.75,
        "better": "higher",
        "reached": value >= 0.75,
        "value": value,
        "seconds": 118.0 if value >= 0.75 else None,
        "reason": None,
    }


def _limit(spread: float | None) -> dict[str, Any]:
    held = None if spread is None else spread <= 0.05
    return {"over": "ranks", "limit": 0.05, "spread": spread, "held": held, "reason": None if spread else "only one value"}


def _power(nodes: int, measured: bool) -> dict[str, Any]:
    keys = ("idle", "average", "max", "joules", "samples_per_joule", "utilisation")
    values = (412.0, 1630.5, 1702.0, 244_575.0, 0.0579, 87.4)
    found: dict[str, Any] = dict(zip(keys, values if measured else [None] * 6, strict=True))
    reasons = {} if measured else dict.fromkeys(keys, "no meter: RAPL cannot be read, and neither ipmi nor redfish is set up")
    return {
        "of": "devices" if measured else None,
        **found,
        "method": "counters",
        "window": {"start": START + 20, "end": START + 170, "phase": "proc"},
        "reasons": reasons,
        "nodes": [{"node": node, **found, "reasons": reasons, "devices": []} for node in range(nodes)],
    }


def _lines(start: float, node: int, devices: int, seconds: int, chance: random.Random) -> list[dict[str, Any]]:
    found = {"machine": f"m{node}", "devices": "nvml", "power": ["rapl"], "missing": {}}
    header = {"format": "muster-metrics/1", "interval": 1.0, **found}
    return [header, *(_line(start, second, node, devices, chance) for second in range(seconds))]


def _line(start: float, second: int, node: int, devices: int, chance: random.Random) -> dict[str, Any]:
    busy = 1.0 if 20 <= second < 170 else 0.1
    return {
        "t": start + second,
        "cpu": 45 * busy + chance.random() * 5,
        "mem": (80 + 20 * busy) * 2**30,
        "disk_read": 4e8 * (1 if second < 20 else 0.05) * chance.random(),
        "disk_write": 1e7 * chance.random(),
        "net_in": 1.2e9 * busy * (0.9 + chance.random() / 5),
        "net_out": 1.1e9 * busy * (0.9 + chance.random() / 5),
        "devices": {
            str(device): {
                "util": 90 * busy + chance.random() * 8,
                "mem": 52e9 * busy,
                "power": 60 + 240 * busy + 20 * chance.random() + node * 5,
                "temp": 40 + 25 * busy,
            }
            for device in range(devices)
        },
        "power": {"rapl": 120 + 90 * busy + 10 * chance.random()},
    }


def _provenance(name: str, nodes: int, per_node: int, rate: float) -> dict[str, Any]:
    machine = {
        "host": "node0",
        "kernel": "6.1.0",
        "os": "Debian GNU/Linux 12",
        "cpu": {"model": "Example CPU 8358", "sockets": 2, "cores": 64, "threads": 128},
        "memory": 512 << 30,
        "devices": [{"id": str(index), "name": "Example A1", "memory": 64 << 30} for index in range(per_node)],
        "driver": "550.54",
        "runtime": "CUDA 12.8",
        "python": "3.11.7",
        "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    }
    return {
        "muster": "0.4.0",
        "job": {"name": name, "nodes": nodes, "devices": per_node, "parameters": {"batch_size": int(rate)}},
        "code": "sha256:0f3a",
        "command": ["muster", "bench", f"{name}.yaml"],
        "user": "ada",
        "engine": "local",
        "nodes": [{"node": node, **machine, "host": f"node{node}"} for node in range(nodes)],
        "environment": {"OMP_NUM_THREADS": "8"},
        "times": {"created": START, "started": START, "ended": START + 180},
    }

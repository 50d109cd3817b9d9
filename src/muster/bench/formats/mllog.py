"""A result as a log in MLPerf's style: one log per run, with the keys that the public package `mlperf-logging` knows.

What the script itself logged stands there as it was written. Of the rest only what is known is told.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from muster.bench.formats.script_log import ScriptLog, Span, Voice
from muster.metrics.mllog import Event

DIVISIONS = {"close": "closed", "closed": "closed", "open": "open"}
# Numbers that scripts tell under the names that MLPerf gives them.
TOLD = ("global_batch_size", "gradient_accumulation_steps", "train_samples", "eval_samples", "seed", "max_steps")
EVALUATIONS = ["eval_accuracy", "eval_error"]  # what is measured is one of these
# What lies between the edges of a run, and in which order these stand.
INSIDE = [f"{what}_{edge}" for what in ("block", "epoch", "eval") for edge in ("start", "stop")] + EVALUATIONS
ORDER = (["init_start"], ["init_stop"], ["run_start"], INSIDE, ["run_stop"])
SILENT = ScriptLog(Voice())


def lines(
    result: Mapping[str, Any], repeat: int = 0, plan: Mapping[str, Any] | None = None, script: ScriptLog = SILENT
) -> Iterator[str]:
    """The log of one of the runs of a result; a tester's plan tells which benchmark and division it was."""
    run, logged = result["runs"][repeat], script.spans()
    edges = [_between(edge, logged) for edge in _edges(run, {"status": _status(result, run), **_rate(run)})]
    begin = edges[0].time_ms if edges else _ms(result["created"])
    end = edges[-1].time_ms if edges else begin
    opening = [*_submission(result, plan or {}, begin), *_numbers(run, begin), *edges[:-1]]
    closing = [*_accuracies(run, end), *edges[-1:]]
    streams = (_added(opening, logged), ((line.time_ms, line.text) for line in script.lines()), _added(closing, logged))
    return (text for _, text in heapq.merge(*streams, key=itemgetter(0)))  # of the same time, in this order


def _added(events: Iterable[Event], logged: Container[str]) -> list[tuple[float, str]]:
    """Events of which the script logged nothing itself, by time."""
    new = [event for event in events if not _logged(event.key, logged)]
    return [(event.time_ms, event.line) for event in sorted(new, key=lambda event: event.time_ms)]


def _logged(key: str, logged: Container[str]) -> bool:
    return any(name in logged for name in (EVALUATIONS if key in EVALUATIONS else [key]))


def _between(edge: Event, logged: Mapping[str, Span]) -> Event:
    """An edge in its order among what the script logged itself."""
    at = ORDER.index([edge.key])
    before = [logged[key].last for group in ORDER[:at] for key in group if key in logged]
    after = [logged[key].first for group in ORDER[at + 1 :] for key in group if key in logged]
    time_ms = min([max([edge.time_ms, *before]), *after])
    return replace(edge, time_ms=int(time_ms) if time_ms == int(time_ms) else time_ms)


def _edges(run: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[Event]:
    """When the run prepared and when it trained: the phase `proc`, else the time of its ranks, until the last evaluation.

    The training of several attempts began in the first of them.
    """
    prepare, proc = _phase(run, "prepare"), _phase(run, "proc")
    phase = "total" if proc["start"] is None or proc["end"] is None else "proc"
    begin = _known(prepare["start"], run["started"])
    start = prepare["end"] if phase == "total" else proc["start"]
    if (run["attempt"] or 1) > 1:
        start = run["training_began"]
        begin = min((time for time in (begin, start) if time is not None), default=None)
    end = run["ended"] if phase == "total" else proc["end"]
    if begin is None:
        return []
    init = Event(_ms(begin), "init_start", event_type="INTERVAL_START")
    if start is None or end is None:
        return [init]
    ready = min(start, _known(prepare["end"], start))
    stop = max([end, *(point["t"] for point in _points(run))])
    return [
        init,
        Event(_ms(ready), "init_stop", event_type="INTERVAL_END"),
        Event(_ms(start), "run_start", None, {"phase": phase}, "INTERVAL_START"),
        Event(_ms(stop), "run_stop", None, {**outcome}, "INTERVAL_END"),
    ]


def _submission(result: Mapping[str, Any], plan: Mapping[str, Any], time_ms: float) -> Iterator[Event]:
    told = {
        "submission_benchmark": plan.get("model") or result["name"],
        "submission_division": DIVISIONS.get(plan.get("division", "")),
        "submission_platform": _platform(result["provenance"]["nodes"]),
    }
    return (Event(time_ms, key, value) for key, value in told.items() if value)


def _platform(nodes: list[Mapping[str, Any]]) -> str:
    """The machines in words, such as `2 x (8 x Ascend 910)`."""
    kinds = Counter(filter(None, map(_machine, filter(None, nodes))))
    return " + ".join(f"{count} x ({kind})" for kind, count in kinds.items())


def _machine(node: Mapping[str, Any]) -> str:
    devices = Counter(device["name"] for device in node.get("devices") or [] if device.get("name"))
    return ", ".join(f"{count} x {name}" for name, count in devices.items()) or (node.get("cpu") or {}).get("model") or ""


def _numbers(run: Mapping[str, Any], time_ms: float) -> Iterator[Event]:
    for name in TOLD:
        ranks = run["metrics"].get(name, {}).get("ranks", [])
        value = _known(*(rank["value"] for rank in ranks))  # often one rank alone tells it
        if value is not None:
            yield Event(time_ms, name, int(value) if value == int(value) else value)


def _accuracies(run: Mapping[str, Any], end_ms: float) -> Iterator[Event]:
    """Every evaluation, with its step where that was told; nobody told which epoch it was."""
    points = _points(run)
    last = run["metrics"].get("accuracy", {}).get("value")
    if not points and last is not None:
        yield Event(end_ms, "eval_accuracy", last)
    for point in points:
        step = {} if point["step"] is None else {"step_num": point["step"]}
        yield Event(_ms(point["t"]), "eval_accuracy", point["value"], {**step, "rank": point["rank"]})


def _status(result: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """MLPerf calls a run successful that ended well and reached the quality it was to reach."""
    reached = all(target["reached"] for target in result["targets"])
    return "success" if run["state"] == "succeeded" and reached else "aborted"


def _rate(run: Mapping[str, Any]) -> dict[str, float]:
    """The throughput, for which MLPerf has no key."""
    value = run["metrics"].get("throughput", {}).get("value")
    return {} if value is None else {"throughput": value}


def _points(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [point for point in run["metrics"].get("accuracy", {}).get("series", []) if point["t"] is not None]


def _phase(run: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return run["phases"].get(name) or {"start": None, "end": None}


def _known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _ms(t: float) -> int:
    return round(t * 1000)

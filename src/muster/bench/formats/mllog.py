"""A result as a log in MLPerf's style: one log per run, with the keys that the public package `mlperf-logging` knows.

Lines that the script itself logged are kept as written; only what is known is added.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from muster.bench.formats.script_log import Line
from muster.bench.model.result import Machine, Phase, Result, RunResult, SeriesPoint
from muster.metrics.mllog import Event

DIVISIONS = {"close": "closed", "closed": "closed", "open": "open"}
# Numbers that scripts report under the names that MLPerf gives them.
NUMBERS = ("global_batch_size", "gradient_accumulation_steps", "train_samples", "eval_samples", "seed", "max_steps")
EVALUATIONS = ["eval_accuracy", "eval_error"]  # what is measured is one of these
# What lies between the edges of a run, and in which order these stand.
INSIDE = [f"{what}_{edge}" for what in ("block", "epoch", "eval") for edge in ("start", "stop")] + EVALUATIONS
ORDER = (["init_start"], ["init_stop"], ["run_start"], INSIDE, ["run_stop"])

Logged = dict[str, tuple[float, float]]
"""When the script first and last logged each key, in milliseconds."""


def lines(
    result: Result, repeat: int = 0, plan: Mapping[str, Any] | None = None, script: Callable[[], Iterable[Line]] = tuple
) -> Iterator[str]:
    """The log of one of the runs of a result; a tester's plan names the benchmark and the division.

    `script` goes through the lines of the script by time, anew at each call: they may be more than memory holds.
    """
    run = result.runs[repeat]
    logged: Logged = {}
    for line in script():
        logged[line.key] = logged.get(line.key, (line.time_ms,))[0], line.time_ms
    good = run.state == "succeeded" and all(target.reached for target in result.targets)  # as MLPerf calls a run successful
    outcome: dict[str, str | float] = {"status": "success" if good else "aborted"}
    if (rate := _value(run, "throughput")) is not None:
        outcome["throughput"] = rate  # for which MLPerf has no key
    edges = [_between(edge, logged) for edge in _edges(run, outcome)]
    begin = edges[0].time_ms if edges else _ms(result.created or 0.0)
    end = edges[-1].time_ms if edges else begin
    opening = [*_submission(result, plan or {}, begin), *_numbers(run, begin), *edges[:-1]]
    closing = [*_accuracies(run, end), *edges[-1:]]
    kept = ((line.time_ms, line.text) for line in script())
    timed = heapq.merge(_added(opening, logged), kept, _added(closing, logged), key=itemgetter(0))
    return (text for _, text in timed)  # of the same time, in this order


def _added(events: Iterable[Event], logged: Logged) -> list[tuple[float, str]]:
    """Events of which the script logged nothing itself, by time."""
    same = dict.fromkeys(EVALUATIONS, EVALUATIONS)
    new = [event for event in events if not any(key in logged for key in same.get(event.key, [event.key]))]
    return [(event.time_ms, event.line) for event in sorted(new, key=lambda event: event.time_ms)]


def _between(edge: Event, logged: Logged) -> Event:
    """An edge in its order among what the script logged itself."""
    at = ORDER.index([edge.key])
    before = [logged[key][1] for group in ORDER[:at] for key in group if key in logged]
    after = [logged[key][0] for group in ORDER[at + 1 :] for key in group if key in logged]
    time_ms = min([max([edge.time_ms, *before]), *after])
    return replace(edge, time_ms=int(time_ms) if time_ms == int(time_ms) else time_ms)


def _edges(run: RunResult, outcome: Mapping[str, str | float]) -> list[Event]:
    """When the run prepared and when it trained: the phase `proc`, else the time of its ranks, until the last evaluation.

    The training of several attempts began in the first of them.
    """
    prepare, proc = run.phases.get("prepare", Phase()), run.phases.get("proc", Phase())
    phase = "total" if proc.seconds is None else "proc"
    begin = run.started if prepare.start is None else prepare.start
    start = prepare.end if phase == "total" else proc.start
    if (run.attempt or 1) > 1:
        start = run.training_began
        begin = min((time for time in (begin, start) if time is not None), default=None)
    end = run.ended if phase == "total" else proc.end
    if begin is None:
        return []
    init = Event(_ms(begin), "init_start", event_type="INTERVAL_START")
    if start is None or end is None:
        return [init]
    ready = start if prepare.end is None else min(start, prepare.end)
    stop = max([end, *(t for t, _ in _evaluations(run))])
    return [
        init,
        Event(_ms(ready), "init_stop", event_type="INTERVAL_END"),
        Event(_ms(start), "run_start", None, {"phase": phase}, "INTERVAL_START"),
        Event(_ms(stop), "run_stop", None, {**outcome}, "INTERVAL_END"),
    ]


def _submission(result: Result, plan: Mapping[str, Any], time_ms: float) -> Iterator[Event]:
    entries = {
        "submission_benchmark": plan.get("model") or result.name,
        "submission_division": DIVISIONS.get(plan.get("division", "")),
        "submission_platform": _platform(result.provenance.nodes),
    }
    return (Event(time_ms, key, value) for key, value in entries.items() if value)


def _platform(nodes: Iterable[Machine]) -> str:
    """The machines in words, such as `2 x (8 x Ascend 910)`."""
    kinds: Counter[str] = Counter()
    for node in nodes:
        devices = Counter(device.name for device in node.devices if device.name)
        kind = ", ".join(f"{count} x {name}" for name, count in devices.items()) or (node.cpu and node.cpu.model)
        kinds.update([kind] if kind else [])
    return " + ".join(f"{count} x ({kind})" for kind, count in kinds.items())


def _numbers(run: RunResult, time_ms: float) -> Iterator[Event]:
    for name in (name for name in NUMBERS if name in run.metrics):
        value = next((rank.value for rank in run.metrics[name].ranks if rank.value is not None), None)  # often of one alone
        if value is not None:
            yield Event(time_ms, name, int(value) if value == int(value) else value)


def _accuracies(run: RunResult, end_ms: float) -> Iterator[Event]:
    """Every evaluation, with its step where that is known; its epoch is not."""
    evaluations, last = _evaluations(run), _value(run, "accuracy")
    if not evaluations and last is not None:
        yield Event(end_ms, "eval_accuracy", last)
    for t, point in evaluations:
        step = {} if point.step is None else {"step_num": point.step}
        yield Event(_ms(t), "eval_accuracy", point.value, {**step, "rank": point.rank})


def _value(run: RunResult, name: str) -> float | None:
    return run.metrics[name].value if name in run.metrics else None


def _evaluations(run: RunResult) -> list[tuple[float, SeriesPoint]]:
    """The accuracies on the way whose times are known."""
    series = run.metrics["accuracy"].series if "accuracy" in run.metrics else ()
    return [(point.t, point) for point in series if point.t is not None]


def _ms(t: float) -> int:
    return round(t * 1000)

"""What happened in a run, from the events of its supervisor and its nodes; bounded, because ranks can write there, too."""

from typing import Any

from muster.records import clocks
from muster.records.files import read_events
from muster.records.layout import RunDir
from muster.records.untrusted import number as number_of
from muster.records.untrusted import plain, printable

MOST = 2000
VALUE = 300  # characters of a value that are shown
NODES = 64  # whose own events are read


def events(run: RunDir) -> list[dict[str, Any]]:
    """The events of a run in the order of their times, the last of them where there are many."""
    found = [_event(event, None, 0.0) for event in read_events(run.events)]
    for attempt_number in run.attempt_numbers()[-3:]:
        attempt = run.attempt(attempt_number)
        ahead = clocks.ahead(attempt)
        for node in attempt.node_indexes()[:NODES]:
            own = read_events(attempt.node(node).events)
            found += [_event({"attempt": attempt_number, **event}, node, ahead.get(node, 0.0)) for event in own]
    found = [event for event in found if event["time"] is not None]
    return _once(sorted(found, key=lambda event: event["time"]))[-MOST:]


def _once(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leaves out what is said twice: the supervisor notes the failure that a node told it of."""
    failures: list[dict[str, Any]] = []
    kept = []
    for event in found:
        same = {name: value for name, value in event.items() if name != "time"}
        if same in failures:
            continue
        kept.append(event)
        if event["event"] == "failure" and len(failures) < NODES:
            failures.append(same)
    return kept


def fetching(run: RunDir, number: int) -> tuple[float, float | None] | None:
    """When the nodes of an attempt fetched its inputs, from the first to the last; None where there were none."""
    attempt = run.attempt(number)
    ahead = clocks.ahead(attempt)
    begun: list[float] = []
    ended: list[float] = []
    for node in attempt.node_indexes()[:NODES]:
        for event in read_events(attempt.node(node).events):
            time = number_of(event.get("time"))
            if time is not None and event.get("event") in ("inputs", "inputs-ended"):
                (begun if event["event"] == "inputs" else ended).append(time - ahead.get(node, 0.0))
    if not begun:
        return None
    return min(begun), max(ended) if len(ended) >= len(begun) else None


def _event(event: dict[str, Any], node: int | None, ahead: float) -> dict[str, Any]:
    time = number_of(event.get("time"))
    other = {
        printable(str(key))[:40]: "true" if value is True else printable(str(value))[:VALUE]
        for key, value in plain(event).items()
        if key not in ("time", "event", "attempt", "node") and value is not None and value is not False and value != ""
    }
    return {
        "time": time - ahead if time is not None else None,
        "event": printable(str(event.get("event")))[:60],
        "attempt": event.get("attempt") if isinstance(event.get("attempt"), int) else None,
        "node": node if node is not None else event.get("node") if isinstance(event.get("node"), int) else None,
        "details": other,
    }

"""Whether the program of a run can read the keys of the run: there are some, and no namespaces keep them apart."""

from __future__ import annotations

from muster.records.files import read_events
from muster.records.layout import RunDir


def warning(run: RunDir) -> str | None:
    """One sentence of warning, empty where there is nothing to warn of; None while nobody knows yet."""
    attempt = run.last_attempt()
    events = [*read_events(run.events), *(read_events(attempt.node(0).events) if attempt else ())]
    told = [event for event in events if event.get("event") in ("nodes", "node")]
    if not told:
        return None
    if not told[-1].get("keys"):
        return ""
    return (
        "the job can read the keys that Muster uses for it, because there are no namespaces ({}) and both are the same user; "
        "run only jobs that you trust with them".format(told[-1].get("reason"))
    )

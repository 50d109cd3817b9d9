"""Where a result comes from: the job as it ran, its code, the versions and the hardware of every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.records.files import read_json
from muster.records.layout import RunDir


def provenance(bench: Mapping[str, Any], runs: Sequence[RunDir], started: float | None) -> dict[str, Any]:
    """All that is known about how the numbers came to be, from the first run of a benchmark."""
    run = read_json(runs[0].run) if runs else None
    facts: dict[str, Any] = run if isinstance(run, dict) else {}
    systems = _systems(runs[0]) if runs else []
    environment = systems[0].get("environment") if systems else None
    return {
        "muster": facts.get("muster"),
        "job": read_json(runs[0].job) if runs else None,
        "code": facts.get("code"),
        "command": bench.get("command"),
        "user": facts.get("user"),
        "engine": facts.get("engine"),
        "nodes": systems,
        "environment": environment or {},
        "times": {"created": bench.get("created"), "started": started, "ended": bench.get("ended")},
    }


def _systems(run: RunDir) -> list[dict[str, Any]]:
    """What each node found out about itself; a node without such a word stays visible."""
    attempt = run.last_attempt()
    found = []
    for index in attempt.node_indexes() if attempt else []:
        system = read_json(attempt.node(index).path + "/system.json") if attempt else None
        missing = {"missing": {"system": "the node was not described"}}
        found.append({"node": index, **(system if isinstance(system, dict) else missing)})
    return found

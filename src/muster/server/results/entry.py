"""One accepted result as the tester lists and ranks it: the columns that are read out of its `result.json` once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.tester.plan import Plan

LONGEST = 300  # letters of a text that others wrote


@dataclass(frozen=True)
class Entry:
    number: int
    bench: str
    sha256: str
    size: int
    submitter: str
    received: float
    test_id: str | None
    model: str
    mode: str
    division: str
    scenario: str
    object_type: str
    name: str
    created: float | None
    passed: bool
    metric: str
    value: float | None
    unit: str
    better: str
    accuracy: float | None
    nodes: int | None
    devices: int | None
    hardware: str
    samples_per_joule: float | None
    signature: str
    signed_by: str | None


def columns(result: Mapping[str, Any], plan: Plan | None) -> dict[str, Any]:
    """What a result and its plan say about the columns that depend on them; without a plan the model is the job's name."""
    name = _text(result.get("name"))
    metric = _text(result.get("metric"))
    measured = _mapping(_mapping(result.get("metrics")).get(metric))
    job = _mapping(_mapping(result.get("provenance")).get("job"))
    nodes, devices = _count(job.get("nodes")), _count(job.get("devices"))
    return {
        "test_id": plan.test_id if plan else None,
        "model": plan.model if plan else name,
        "mode": plan.mode if plan else "",
        "division": plan.division if plan else "",
        "scenario": plan.scenario if plan else "",
        "object_type": plan.object_type if plan else "",
        "name": name,
        "created": _number(result.get("created")),
        "passed": _mapping(result.get("verdict")).get("passed") is True,
        "metric": metric,
        "value": _number(measured.get("value")),
        "unit": _text(measured.get("unit")),
        "better": "lower" if measured.get("better") == "lower" else "higher",
        "accuracy": _number(_mapping(_mapping(result.get("metrics")).get("accuracy")).get("value")),
        "nodes": nodes,
        "devices": nodes * (devices or 1) if nodes else None,
        "hardware": _hardware(result),
        "samples_per_joule": _number(_mapping(result.get("power")).get("samples_per_joule")),
    }


def clean(text: str) -> str:
    """A text of others as it can be kept and shown: not too long, and letters throughout."""
    return text[:LONGEST].encode("utf-8", "replace").decode()


def _hardware(result: Mapping[str, Any]) -> str:
    """The accelerators of the nodes, or their CPUs where there are none, each kind once."""
    systems = _mapping(result.get("provenance")).get("nodes")
    found: dict[str, None] = {}
    for system in systems if isinstance(systems, list) else []:
        devices = _mapping(system).get("devices")
        names = [_mapping(device).get("name") for device in devices] if isinstance(devices, list) else []
        for name in names or [_mapping(_mapping(system).get("cpu")).get("model")]:
            if isinstance(name, str) and name:
                found[name] = None
    return _text(", ".join(found))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""One accepted result as the tester lists and ranks it: a row of the table `results`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.server.results.bundle_contents import BundleContents
from muster.server.results.uploads import Upload
from muster.tester.plan import Plan
from muster.tester.protocol import Verdict

MAX_TEXT = 300  # characters of a submitted text


@dataclass(frozen=True)
class ResultRow:
    number: int  # assigned by the database; 0 before
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

    @classmethod
    def from_bundle(cls, upload: Upload, received: float, contents: BundleContents, plan: Plan | None) -> ResultRow:
        """Reads the columns out of a bundle's result; without a plan the model is the job's name."""
        result = contents.result
        name = _text(result.get("name"))
        metric = _text(result.get("metric"))
        metrics = _mapping(result.get("metrics"))
        measured = _mapping(metrics.get(metric))
        job = _mapping(_mapping(result.get("provenance")).get("job"))
        nodes, devices = _count(job.get("nodes")), _count(job.get("devices"))
        return cls(
            number=0,
            bench=contents.bench,
            sha256=upload.sha256,
            size=upload.size,
            submitter=upload.submitter,
            received=received,
            test_id=plan.test_id if plan else None,
            model=plan.model if plan else name,
            mode=plan.mode if plan else "",
            division=plan.division if plan else "",
            scenario=plan.scenario if plan else "",
            object_type=plan.object_type if plan else "",
            name=name,
            created=_number(result.get("created")),
            passed=_mapping(result.get("verdict")).get("passed") is True,
            metric=metric,
            value=_number(measured.get("value")),
            unit=_text(measured.get("unit")),
            better="lower" if measured.get("better") == "lower" else "higher",
            accuracy=_number(_mapping(metrics.get("accuracy")).get("value")),
            nodes=nodes,
            devices=nodes * (devices or 1) if nodes else None,
            hardware=_hardware(result),
            samples_per_joule=_number(_mapping(result.get("power")).get("samples_per_joule")),
            signature=contents.signature,
            signed_by=contents.signed_by,
        )

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> ResultRow:
        return cls(**{**{name: row[name] for name in cls.__dataclass_fields__}, "passed": bool(row["passed"])})

    def to_row(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "number"}

    def verdict(self) -> Verdict:
        return Verdict(
            accepted=True,
            bench=self.bench,
            number=self.number,
            page=f"/results/{self.number}",
            passed=self.passed,
            metric=self.metric,
            value=self.value,
            unit=self.unit,
            signature=self.signature,
            signed_by=self.signed_by,
        )


def storable(text: str) -> str:
    """Shortens a submitted text, and replaces what cannot be encoded."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()


def _hardware(result: Mapping[str, Any]) -> str:
    """The accelerators of the nodes, or their CPUs where there are none, each kind once."""
    systems = _mapping(result.get("provenance")).get("nodes")
    names: dict[str, None] = {}
    for system in systems if isinstance(systems, list) else []:
        devices = _mapping(system).get("devices")
        accelerators = [_mapping(device).get("name") for device in devices] if isinstance(devices, list) else []
        for name in accelerators or [_mapping(_mapping(system).get("cpu")).get("model")]:
            if isinstance(name, str) and name:
                names[name] = None
    return _text(", ".join(names))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

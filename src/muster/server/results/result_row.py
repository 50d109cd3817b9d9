"""The contents of a verified bundle, and the row of the table `results` by which the tester lists and ranks its result.

Contents that the tester does not accept raise Refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.bench.errors import ResultError
from muster.bench.model.result import BenchRecord, Machine, Result
from muster.records.untrusted import whole
from muster.server.results.uploads import Upload
from muster.server.results.verify_worker import Verification
from muster.tester.protocol import Plan, Verdict

REPLAYED, INVALID = 409, 422  # HTTP status
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
MAX_TEXT = 300  # characters of a submitted text
MAX_COUNT = 1 << 62  # nodes and devices; databases take no number that is much larger


class Refused(Exception):
    """Reasons not to accept a bundle, with the HTTP status for their kind."""

    def __init__(self, status: int, *problems: str, bench: str | None = None) -> None:
        super().__init__(*problems)
        self.status = status
        self.problems = list(problems)
        self.bench = bench


@dataclass(frozen=True)
class BundleContents:
    bench: BenchRecord
    result: Result
    signature: str
    signed_by: str | None

    @classmethod
    def from_verification(cls, found: Verification) -> BundleContents:
        """Raises Refused for a bundle that is inconsistent or forged, or has ids that Muster does not make."""
        id = valid_id((found.bench or {}).get("id"))
        if found.signature == "bad":
            raise Refused(INVALID, "its signature does not belong to it: somebody changed it or forged the signature", bench=id)
        if not found.passed or found.bench is None or found.result is None:
            raise Refused(INVALID, *(found.problems or ["it is not a bundle"]), bench=id)
        try:
            bench, result = BenchRecord.from_json(found.bench), Result.from_json(found.result)
        except ResultError as error:
            raise Refused(INVALID, str(error), bench=id) from None
        if id is None or not all(map(valid_id, bench.runs)):
            raise Refused(INVALID, "the ids of the benchmark and its runs are not such as Muster makes", bench=id)
        return cls(bench, result, found.signature, found.signed_by)


def valid_id(value: object) -> str | None:
    """Returns an id that fits into a URL and a file name, else None."""
    return value if isinstance(value, str) and ID.fullmatch(value) else None


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
        """Makes the row of a bundle's result; without a plan the model is the job's name."""
        result = contents.result
        name = storable(result.name)
        measured, accuracy = result.metrics.get(result.metric), result.metrics.get("accuracy")
        job = result.provenance.job or {}
        nodes, devices = whole(job.get("nodes")), whole(job.get("devices"))
        unplanned = {"test_id": None, "model": name, "mode": "", "division": "", "scenario": "", "object_type": ""}
        planned: dict[str, Any] = vars(plan) if plan else unplanned
        return cls(
            number=0,
            bench=contents.bench.id,
            sha256=upload.sha256,
            size=upload.size,
            submitter=upload.submitter,
            received=received,
            **planned,
            name=name,
            created=result.created,
            passed=result.verdict.passed,
            metric=storable(result.metric),
            value=measured.value if measured else None,
            unit=storable(measured.unit) if measured else "",
            better=(measured and measured.better) or "higher",
            accuracy=accuracy.value if accuracy else None,
            nodes=_countable(nodes),
            devices=_countable(nodes * (devices or 1)) if nodes else None,
            hardware=_hardware(result.provenance.nodes),
            samples_per_joule=result.power.samples_per_joule,
            signature=contents.signature,
            signed_by=storable(contents.signed_by) if contents.signed_by is not None else None,
        )

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> ResultRow:
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    def to_row(self) -> dict[str, Any]:
        """The columns of the table, without the number, which the database assigns, and the submitter, who is a user there."""
        return {name: value for name, value in vars(self).items() if name not in ("number", "submitter")}

    def verdict(self) -> Verdict:
        return Verdict.from_json({**vars(self), "accepted": True, "page": f"/results/{self.number}"})


def storable(text: str) -> str:
    """Shortens a submitted text, and replaces what cannot be encoded or stored."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _countable(number: int | None) -> int | None:
    return number if number is not None and abs(number) < MAX_COUNT else None


def _hardware(nodes: Iterable[Machine]) -> str:
    """The accelerators of the nodes, or their CPUs where there are none, each kind once."""
    names: dict[str, None] = {}
    for node in nodes:
        kinds = [device.name for device in node.devices] or [node.cpu.model if node.cpu else None]
        names |= dict.fromkeys(name for name in kinds if name)
    return storable(", ".join(names))

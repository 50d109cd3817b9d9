"""The provenance of a result: the job as it ran, its code, the versions and the hardware of every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.bench.errors import ResultError
from muster.bench.model import codec
from muster.bench.model.bench import BenchRecord
from muster.bench.model.result import Machine, Provenance, Times
from muster.records.files import read_json, read_object
from muster.records.json_safe import plain
from muster.records.layout import RunDir

UNDESCRIBED = {"missing": {"system": "the node was not described"}}


def provenance(bench: BenchRecord, runs: Sequence[RunDir], started: float | None) -> Provenance:
    """How the numbers of a benchmark came to be, from the record of its first run."""
    facts = read_object(runs[0].run) if runs else {}
    machines = _machines(runs[0]) if runs else ()
    return Provenance(
        muster=facts.get("muster"),
        job=read_json(runs[0].job) if runs else None,
        code=facts.get("code"),
        command=bench.command,
        user=facts.get("user"),
        engine=facts.get("engine"),
        nodes=machines,
        environment=machines[0].environment if machines else {},
        times=Times(bench.created, started, bench.ended),
    )


def _machines(run: RunDir) -> tuple[Machine, ...]:
    """The machines of the last attempt; a node that was not described is there, too."""
    attempt = run.last_attempt()
    found = []
    for index in attempt.node_indexes() if attempt else []:
        system = plain(read_json(attempt.node(index).system)) if attempt else None
        found.append(_machine(index, system if isinstance(system, dict) else UNDESCRIBED))
    return tuple(found)


def _machine(node: int, system: Mapping[str, Any]) -> Machine:
    try:
        return codec.read(Machine, {"node": node, **system})
    except ResultError:  # ranks can write into the directory of their node
        return codec.read(Machine, {"node": node, **UNDESCRIBED})

"""The machines of a result as a table shows them. What a node says of itself in an odd way is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.bench.report.figures import NONE, size


@dataclass(frozen=True)
class MachineRow:
    node: int
    host: str
    processors: str
    memory: str
    devices: str
    software: str


def rows(provenance: Mapping[str, Any]) -> list[MachineRow]:
    """A row for each node."""
    return [_row(node, mapping(system)) for node, system in enumerate(provenance.get("nodes") or [])]


def packages(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The packages of the first node."""
    return mapping(mapping(next(iter(provenance.get("nodes") or []), None)).get("packages"))


def mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _row(node: int, system: Mapping[str, Any]) -> MachineRow:
    cpu = mapping(system.get("cpu"))
    memory = system.get("memory")
    found = system.get("devices")
    names = Counter(str(mapping(device).get("name")) for device in (found if isinstance(found, list) else []))
    python = system.get("python")
    software = [system.get(key) for key in ("os", "kernel", "runtime", "driver")]
    return MachineRow(
        node,
        str(system.get("host") or NONE),
        " · ".join(str(part) for part in (cpu.get("model") or NONE, cpu.get("threads") and f"{cpu['threads']}×") if part),
        size(memory) if isinstance(memory, int | float) else NONE,
        ", ".join(f"{count} × {name}" for name, count in names.items()) or NONE,
        " · ".join(str(part) for part in [*software, python and f"Python {python}"] if part) or NONE,
    )

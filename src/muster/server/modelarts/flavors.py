"""Flavors: kinds and numbers of devices that the pools of a project have, and the names that ModelArts has for such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muster.server.core.access import Caller
from muster.server.core.accounts.projects import Project
from muster.server.modelarts.asking.problems import BAD_FLAVOR, NO_FLAVOR, Refused
from muster.server.runs.checking import with_account
from muster.server.runs.platform import Platform
from muster.server.runs.pools.nodes import present
from muster.server.runs.pools.nodes.state import NodeState
from muster.server.runs.pools.pool import Pool

NUMBERS = (1, 2, 4, 8, 16)
TYPES = {"cpu": "CPU", "nvidia": "GPU", "ascend": "Ascend"}
ANY = "any"  # the kind of devices that the pool has
# Names of the service that say a kind and a number of devices.
WELL_KNOWN = (
    (r"modelarts\.vm\.cpu\..*", "cpu", 1),
    (r"modelarts\.(bm\.gpu\.8v100|p3\.8xlarge)(\..*)?", "nvidia", 8),
    (r"modelarts\.(vm\.gpu|bm\.gpu|p3)\..*", "nvidia", 1),
    (r"modelarts\.vm\.ai1\..*|modelarts\.vm\.snt3", "ascend", 1),
    (r"modelarts\.kat1\.(?P<n>\d{0,4})xlarge(\..*)?", "ascend", 0),
    (r"modelarts\.bm\.snt9\.xlarge\.(?P<n>\d{1,4})", "ascend", 0),
    (r"modelarts\.pool\.visual\.(?P<n>\d{0,4})xlarge", ANY, 0),
)


@dataclass(frozen=True)
class Offer:
    """Devices that nodes of a pool have."""

    pool: str
    kind: str
    devices: int  # of one node
    nodes: int  # that have so many
    model: str
    cpus: int
    memory: int

    @property
    def id(self) -> str:
        return f"{self.kind}.{self.devices}"


@dataclass(frozen=True)
class Wanted:
    """What a job asks for."""

    kind: str  # `auto` where it does not say
    devices: int
    pool: str = ""


def offers(platform: Platform, caller: Caller, project: Project) -> list[Offer]:
    """What the pools of a project have, in which the caller has an account."""
    found = with_account(platform, caller, project, platform.pools.serving(project.name))
    return [offer for pool, _ in found for offer in _of_pool(platform, pool)]


def _of_pool(platform: Platform, pool: Pool) -> Iterator[Offer]:
    states: list[NodeState | None] = list(platform.nodes.state(pool.name).nodes.values())
    most: dict[tuple[str, int], list[tuple[NodeState | None, str]]] = {}
    for state in states or [None]:
        counts = present.counts(pool, state, ()) if state else []
        for count in counts or [{"kind": "cpu", "total": max(1, (state.cpus if state else 0) or 1), "model": ""}]:
            total = int(count["total"])
            for number in {*(number for number in NUMBERS if number <= total), min(total, NUMBERS[-1])} - {0}:
                most.setdefault((str(count["kind"]), number), []).append((state, str(count["model"])))
    for (kind, number), found in sorted(most.items()):
        first, model = found[0]
        cpus, memory = ((first.cpus or 0), (first.memory or 0)) if first else (0, 0)
        yield Offer(pool.name, kind, number, len(found), model, cpus, memory)


def choose(platform: Platform, found: list[Offer], flavor: str, pool: str) -> Wanted:
    """What a flavor and a pool of a body mean. Raises Refused where no pool has that."""
    if pool and pool not in {offer.pool for offer in found}:
        known = ", ".join(dict.fromkeys(offer.pool for offer in found)) or "none"
        raise Refused(BAD_FLAVOR, f"there is no pool `{pool[:80]}` for this project; there is {known}")
    if not flavor:
        return Wanted("auto", 1, pool)
    wanted = _meant(platform, found, flavor, pool)
    if wanted is None:
        known = ", ".join(dict.fromkeys(offer.id for offer in found))
        raise Refused(NO_FLAVOR, f"there is no flavor `{flavor[:80]}`; the pools of this project have {known}")
    counted = [offer for offer in found if offer.kind == wanted.kind and wanted.pool in ("", offer.pool)]
    if wanted.kind not in ("auto", "cpu") and wanted.devices > max((offer.devices for offer in counted), default=0):
        known = ", ".join(dict.fromkeys(offer.id for offer in found if wanted.pool in ("", offer.pool)))
        asked = f"the flavor `{flavor[:80]}` means {wanted.devices} {wanted.kind} on each node"
        raise Refused(BAD_FLAVOR, f"{asked}, and no node has so many; there is {known}")
    return wanted


def _meant(platform: Platform, found: list[Offer], flavor: str, pool: str) -> Wanted | None:
    if (alias := platform.modelarts.flavors.get(flavor)) is not None:
        return Wanted(alias.device, alias.devices, pool or alias.pool)
    own = re.fullmatch(r"(cpu|nvidia|ascend)\.([1-9]\d{0,3})", flavor)
    if own:
        return Wanted(own[1], int(own[2]), pool)
    for pattern, kind, number in WELL_KNOWN:
        if match := re.fullmatch(pattern, flavor):
            devices = number or min(int(match["n"] or 1), 4000)
            return Wanted(kind_of(found, pool) if kind == ANY else kind, devices, pool)
    return None


def kind_of(found: list[Offer], pool: str) -> str:
    """The kind of devices of a pool: accelerators where it has some."""
    kinds = {offer.kind for offer in found if pool in ("", offer.pool)}
    return next((kind for kind in ("ascend", "nvidia") if kind in kinds), "cpu")

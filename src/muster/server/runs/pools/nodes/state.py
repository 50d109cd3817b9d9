"""What is known of a node of a pool since its last check, and the node that the scheduler makes of it."""

from collections import Counter
from dataclasses import dataclass, field, replace

from muster.server.runs.pools.pool import Pool
from muster.server.runs.scheduling import model
from muster.server.runs.scheduling.reasons import Reason, failed_check

NOT_CHECKED = "it has not been checked yet"
LOCALHOST = "localhost"  # the node of a pool that is this machine


@dataclass(frozen=True)
class Device:
    kind: str
    id: int
    model: str = ""
    lock: int = 0  # the number of the lock that holds it; 0 for none
    who: str = ""  # the run or process that uses it, in words
    run: str = ""
    other: bool = False  # it is used by something else than a run of its pool


@dataclass(frozen=True)
class Gres:
    """Devices of a node of Slurm, as Slurm counts them."""

    kind: str
    model: str
    total: int
    used: int


@dataclass(frozen=True)
class NodeState:
    name: str
    problem: str = NOT_CHECKED  # why nothing starts there
    unreached: str = ""  # why it does not exchange data with other hosts
    checked: float | None = None  # when it was checked last
    notes: tuple[str, ...] = ()
    cpus: int | None = None
    memory: int | None = None
    memory_free: int | None = None
    disk_free: int | None = None
    clock: float | None = None  # seconds that it is ahead of the server
    devices: tuple[Device, ...] = ()
    gres: tuple[Gres, ...] = ()
    seen: bool = False  # it has said what it has, at one time since the server started
    short: str = ""  # what it lacks for now: memory or disk, which running runs may hold

    @property
    def failure(self) -> str:
        """Why nobody counts on the node; empty where there is no reason."""
        return self.problem or self.unreached

    @property
    def left_out(self) -> str:
        """Why nothing starts there now; empty where there is no reason."""
        return self.failure or self.short

    @property
    def has_others(self) -> bool:
        return any(device.other for device in self.devices)

    def failed(self, problem: str, now: float) -> "NodeState":
        """The node after a check that it did not pass; what it has stays known."""
        return replace(self, problem=problem, checked=now, notes=())


def kinds(state: NodeState) -> dict[str, list[Device]]:
    found: dict[str, list[Device]] = {}
    for device in state.devices:
        found.setdefault(device.kind, []).append(device)
    return found


def model_of(devices: list[Device]) -> str:
    """The model of a node's devices of one kind: the most frequent one."""
    return Counter(device.model for device in devices).most_common(1)[0][0]


def node(pool: Pool, state: NodeState, drained: Reason | None) -> model.Node:
    """The node as the scheduler sees it."""
    by_kind = kinds(state)
    ids = {kind: tuple(device.id for device in devices) for kind, devices in by_kind.items()}
    if pool.settings.cpu is not None:
        ids["cpu"] = tuple(range(pool.settings.cpu))
    held = {kind: frozenset(device.id for device in devices if device.other) for kind, devices in by_kind.items()}
    return model.Node(
        state.name,
        state.cpus,
        state.memory,
        ids,
        {kind: model_of(devices) for kind, devices in by_kind.items()},
        pool.labels(state.name),
        drained or (failed_check(state.failure) if state.failure else None),
        {kind: found for kind, found in held.items() if found},
        failed_check(state.short) if state.short else None,
    )


@dataclass(frozen=True)
class PoolState:
    """The nodes of a pool."""

    nodes: dict[str, NodeState] = field(default_factory=dict)
    problem: str = ""  # why nothing is known of its nodes
    checked: float | None = None

"""What the scheduler reads and what it returns. Plain data: `decide(state)` is a pure function over these classes.

Times are seconds since the epoch, durations seconds, memory bytes. Classes of which there are thousands have slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muster.server.runs.scheduling.reasons import Reason, line
from muster.server.runs.scheduling.texts import shape

if TYPE_CHECKING:
    from muster.server.runs.scheduling.capacity.ledger import Ledger

DEFAULT_PRIORITY = 150
MINIMUM_RUNTIME = 300.0


@dataclass(frozen=True, slots=True)
class Demand:
    """What a gang takes: `nodes` parts, each with the same devices, CPUs and memory, and after these `servers` without devices.

    Equal demands may be one object.
    """

    nodes: int = 1
    kind: str = "cpu"
    devices: int = 1  # of each part
    cpus: int = 0  # of each part; 0: the job does not say
    memory: int = 0  # of each part; 0: the job does not say
    model: str = ""  # a part of the name that its node gives the devices; "": any
    labels: tuple[tuple[str, str], ...] = ()  # which its nodes have, sorted
    on: tuple[str, ...] = ()  # the nodes of its parts, in their order: its files lie there; (): any
    servers: int = 0  # further parts, which take no devices: parameter servers

    @property
    def parts(self) -> int:
        return self.nodes + self.servers

    @property
    def total(self) -> int:
        """Devices of all parts, which count against quotas."""
        return self.nodes * self.devices

    def accepts_model(self, name: str) -> bool:
        """True if devices of this name are asked for: `model` is a part of it, in any case; spaces do not count."""
        return _plain(self.model) in _plain(name)

    def words(self, language: str = "en") -> str:
        """What one part needs."""
        return shape(self.devices, self.kind, self.cpus, self.memory, self.model, self.labels, language)


def _plain(name: str) -> str:
    return "".join(name.casefold().split())


@dataclass(frozen=True)
class Node:
    """A machine of a pool. A kind that `devices` does not name is not there, but for `cpu`, which is not counted then."""

    name: str
    cpus: int | None = None  # None: not known, and not checked
    memory: int | None = None
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # ids by kind that are there and answer
    models: Mapping[str, str] = field(default_factory=dict)  # by kind
    labels: Mapping[str, str] = field(default_factory=dict)
    unusable: Reason | None = None  # why nobody counts on it: drained, or failed its check
    held: Mapping[str, frozenset[int]] = field(default_factory=dict)  # ids that others than runs of the server use
    short: Reason | None = None  # why nothing starts there now, although the node counts: it lacks memory or disk


@dataclass(frozen=True)
class Pool:
    name: str
    nodes: tuple[Node, ...] = ()  # of equal ones, earlier ones are preferred
    runs: int | None = None  # most at once
    shares_nodes: bool = False  # a node takes several parts of one gang (`local`); else each part has a node of its own
    passes_on: bool = False  # its engine has a queue (`slurm`): nothing is placed here
    drained: Reason | None = None  # why nothing starts
    minimum_runtime: float = MINIMUM_RUNTIME  # no run is preempted before


@dataclass(frozen=True, slots=True)
class Waiting:
    id: str
    number: int  # grows with each submission: breaks ties
    user: str
    project: str
    pool: str
    demand: Demand
    submitted: float
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    limit: float | None = None  # seconds that it may run
    moved: float | None = None  # place given by an administrator: before all that have none, lower first
    blocked: Reason | None = None  # takes no part in the pass: paused, or runs that it waits for
    expected: float | None = None  # seconds that earlier runs of this name and user took


@dataclass(frozen=True, slots=True)
class Running:
    """A run that holds its devices: being started, running, or told to go and not gone yet."""

    id: str
    user: str
    project: str
    pool: str
    demand: Demand
    nodes: tuple[str, ...]  # one name for each part; empty in a pool that passes on
    started: float
    ids: tuple[tuple[int, ...], ...] | None = None  # of the devices of each part; None: not known yet
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    limit: float | None = None
    expected: float | None = None
    leaving: bool = False  # was told to go: its devices are in use until it has gone


@dataclass(frozen=True)
class State:
    now: float
    pools: tuple[Pool, ...]
    waiting: tuple[Waiting, ...] = ()  # in any order
    running: tuple[Running, ...] = ()  # in any order, those of pools that are gone as well: they count against quotas
    # Devices that non-preemptible runs may hold at once, by (project, user, kind); user "" for the whole project.
    quotas: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    use: Mapping[tuple[str, str], float] = field(default_factory=dict)  # decayed device-seconds by (project, kind)
    weights: Mapping[str, float] = field(default_factory=dict)  # by project; 1 where there is none


@dataclass(frozen=True, slots=True)
class Start:
    run: str
    pool: str
    nodes: tuple[str, ...]  # one name for each part; empty in a pool that passes on
    ids: tuple[tuple[int, ...], ...]  # of the devices of each part; none of a server, and of a kind that is not counted
    overtakes: tuple[str, ...] = ()  # runs with a reservation that it is backfilled before


@dataclass(frozen=True, slots=True)
class Preemption:
    victim: str
    made_for: str  # the run that starts once its victims are gone


@dataclass(frozen=True, slots=True)
class Reservation:
    """The place that is kept for the first run of a pool and kind that does not fit."""

    run: str
    pool: str
    kind: str
    at: float | None  # by time limits at the latest; None: a run that it waits for has no limit
    nodes: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    waits_for: tuple[str, ...]  # runs that have to end first


@dataclass(frozen=True)
class Decision:
    starts: tuple[Start, ...]  # in the order in which they were decided
    preemptions: tuple[Preemption, ...]
    reservations: tuple[Reservation, ...]
    order: Mapping[str, tuple[Waiting, ...]]  # by pool: eligible runs that still wait, first ones first
    ledger: Ledger = field(repr=False, compare=False)  # pools as they are after the pass, for `explain` and `preview`


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a run is expected to start, and what says so."""

    seconds: float  # from now
    limits: bool  # time limits were used
    past: bool  # durations of past runs were used


@dataclass(frozen=True)
class Wait:
    """Why a run waits."""

    run: str
    position: int | None  # in its pool, from 1; None where it takes no part (paused, waits for other runs)
    reasons: tuple[Reason, ...]  # the first is what it waits for first
    estimate: Estimate | None = None

    def words(self, language: str = "en") -> str:
        """All reasons and the estimate in one line, in English ("en") or Chinese ("zh")."""
        return line(self.reasons, self.estimate, language)

    def without(self, seen: Callable[[str], bool]) -> Wait:
        """The same without the ids of runs that the reader may not see."""
        return replace(self, reasons=tuple(reason.without_runs(seen) for reason in self.reasons))


@dataclass(frozen=True)
class Preview:
    """What would become of a job that is submitted now."""

    start: Start | None  # it would start in the next pass, there
    wait: Wait | None  # else why it would wait


@dataclass(frozen=True)
class Refusal:
    """Why a pool can never satisfy a demand, also when it is empty and all of its nodes work."""

    reason: Reason
    nearest: Demand | None  # the largest that is like it and fits

    def words(self, language: str = "en") -> str:
        return self.reason.words(language)

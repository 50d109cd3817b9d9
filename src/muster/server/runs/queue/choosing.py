"""Which pool takes a job, and whether one ever can."""

from __future__ import annotations

from collections.abc import Sequence

from muster.dataclass import replace
from muster.job import Job
from muster.job.queue import PRIORITY
from muster.server.core.access import Caller
from muster.server.core.accounts.projects import Project
from muster.server.runs.platform import Platform
from muster.server.runs.pools.pool import Pool
from muster.server.runs.queue.needs import demand_of, need_of
from muster.server.runs.scheduling.model import Preview, Refusal, Waiting
from muster.server.runs.scheduling.possible import possible
from muster.server.runs.scheduling.reasons import Names, Reason
from muster.tester.errors import Denied

ACCELERATORS = ("nvidia", "ascend")
NO_POOL = {"en": "no pool can run this job: {}", "zh": "没有资源池能运行此作业：{}"}
NEW = ""  # the id of a job that is no run yet
LAST = 1 << 62  # its number: behind all others


class Impossible(Denied):
    """A job that its pools can never run, with the nearest that one of them can."""

    def __init__(self, refusals: Sequence[Refusal], several: bool = False, language: str = "en") -> None:
        words = "; ".join(dict.fromkeys(refusal.words(language) for refusal in refusals))
        nearest = next((refusal.nearest for refusal in refusals if refusal.nearest), None)
        offered = {"nearest": {"nodes": nearest.nodes, "devices": nearest.devices}} if nearest else {}
        super().__init__(400, NO_POOL[language].format(words) if several else words, **offered)
        self._given = refusals, several

    def within(self, language: str) -> Impossible:
        """The same in another language."""
        return Impossible(*self._given, language)


def kind_in(platform: Platform, job: Job, pool: Pool) -> str:
    """The kind of device of a job: in a pool of hosts `auto` is what its nodes have; elsewhere the engine resolves it."""
    if job.device != "auto" or pool.settings.engine != "ssh":
        return job.device
    nodes = platform.nodes.pool(pool.name).nodes
    otherwise = "cpu" if platform.nodes.seen(pool.name) else job.device  # then its engine asks the nodes
    return next((kind for kind in ACCELERATORS if any(node.devices.get(kind) for node in nodes)), otherwise)


def choose(
    platform: Platform, caller: Caller, project: Project, job: Job, candidates: Sequence[tuple[Pool, str]]
) -> tuple[Pool, str]:
    """The pool of a job: of those that can ever run it, the first where it would start now, else the first.

    Raises Impossible.
    """
    if len(candidates) == 1:
        return candidates[0]
    fitting: list[tuple[Pool, str]] = []
    refusals: list[Refusal] = []
    for pool, account in candidates:
        found = replace(job, device=kind_in(platform, job, pool))
        refusal = _beyond_slurm(job, pool)
        if refusal is None and found.device != "auto":
            refusal = _refusal(platform, found, pool)
        if refusal is None:
            fitting.append((pool, account))
        else:
            refusals.append(refusal)
    if not fitting:
        raise Impossible(refusals, several=True)
    for pool, account in fitting:
        foreseen = preview(platform, caller.principal.name, project.name, pool, job)
        if foreseen is not None and foreseen.start is not None:
            return pool, account
    return fitting[0]


def need_known_constraints(job: Job, pool: Pool) -> None:
    """Raises Impossible for constraints that a pool cannot look after: Slurm chooses its nodes itself."""
    if (refusal := _beyond_slurm(job, pool)) is not None:
        raise Impossible([refusal])


def need_possible(platform: Platform, job: Job, pool: Pool) -> None:
    """Raises Impossible for a job that its pool can never run."""
    refusal = _refusal(platform, job, pool)
    if refusal is not None:
        raise Impossible([refusal])


def _refusal(platform: Platform, job: Job, pool: Pool) -> Refusal | None:
    """Why a pool can never run a job; none while a node of it has not said yet what it has."""
    if pool.settings.engine == "slurm" or not platform.nodes.seen(pool.name):
        return None
    return possible(platform.nodes.pool(pool.name), demand_of(need_of(job)))


def _beyond_slurm(job: Job, pool: Pool) -> Refusal | None:
    """The refusal of constraints in a pool of Slurm; labels that the whole pool has are met."""
    if pool.settings.engine != "slurm" or job.constraints is None:
        return None
    lacking = [f"{name}={value}" for name, value in job.constraints.labels.items() if pool.settings.labels.get(name) != value]
    if job.constraints.model:
        lacking.append(job.constraints.model)
    about = {"pool": pool.name, "names": Names(tuple(lacking))}
    return Refusal(Reason("constraints_of_slurm", about), None) if lacking else None


def preview(platform: Platform, user: str, project: str, pool: Pool, job: Job) -> Preview | None:
    """What would become of a job that is submitted now; None where that is not known yet."""
    now = platform.scheduler.state.now if platform.scheduler.state else 0.0
    limit = job.time_limit or pool.settings.default_time_limit
    need = need_of(replace(job, device=kind_in(platform, job, pool), time_limit=limit), pool.has_own_queue)
    priority = job.priority or PRIORITY
    return platform.scheduler.preview(
        Waiting(NEW, LAST, user, project, pool.name, demand_of(need), now, priority, job.preemptible, need.get("limit"))
    )

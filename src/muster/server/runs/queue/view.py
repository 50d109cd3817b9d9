"""The queue as a user may see it: the own runs and those of the user's projects, each with its place and why it waits."""

from dataclasses import dataclass
from functools import partial

from muster.server.core.access import Principal
from muster.server.runs.platform import Platform
from muster.server.runs.scheduling.model import Wait, Waiting


@dataclass(frozen=True)
class QueueEntry:
    """A run that waits."""

    run: str
    pool: str
    user: str
    project: str
    position: int | None  # in its pool, over the runs of all; null for one that takes no part
    nodes: int
    kind: str
    devices: int  # of each node
    priority: int
    preemptible: bool
    moved: bool  # by an administrator
    submitted: float
    reason: str
    expected: float | None  # seconds until it starts, as far as that can be told
    expected_from: list[str]  # `limits`, `past`: what the estimate rests on


def sees(platform: Platform, principal: Principal, user: str, project: str) -> bool:
    """True if a user may see runs of another one in a project, by their names."""
    if principal.role == "administrator" or user == principal.name:
        return True
    return platform.scheduler.project_ids.get(project) in principal.projects


def why(platform: Platform, principal: Principal, run_id: str) -> Wait | None:
    """Why a run waits, without the names of runs that the user may not see."""
    found = platform.scheduler.why(run_id)
    return redacted(platform, principal, found) if found else None


def redacted(platform: Platform, principal: Principal, found: Wait) -> Wait:
    """The same reasons without the ids of runs that the user may not see."""

    def seen(run: str) -> bool:
        owner = platform.scheduler.book.owner(run)
        return owner is not None and sees(platform, principal, *owner)

    return found.without(seen)


def rounded(seconds: float) -> float:
    """An estimate to the minute: who follows a run does not hear of each second that passes."""
    return 60.0 * max(1, round(seconds / 60))


def waiting(platform: Platform, principal: Principal, pool: str | None, offset: int, count: int) -> list[Waiting]:
    """Some of the waiting runs that a user may see, pool by pool in their order; those that take no part come last."""
    found: list[Waiting] = []
    for line in platform.scheduler.lines(pool):
        seen = line.visible(partial(sees, platform, principal))
        found += seen[offset : offset + count - len(found)]
        offset = max(0, offset - len(seen))
        if len(found) == count:
            break
    return found


def entry(platform: Platform, principal: Principal, one: Waiting, language: str) -> QueueEntry:
    found = why(platform, principal, one.id)
    estimate = found.estimate if found else None
    return QueueEntry(
        one.id,
        one.pool,
        one.user,
        one.project,
        found.position if found else None,
        one.demand.nodes,
        one.demand.kind,
        one.demand.devices,
        one.priority,
        one.preemptible,
        one.moved is not None,
        one.submitted,
        found.words(language) if found else "",
        rounded(estimate.seconds) if estimate else None,
        [name for name in ("limits", "past") if estimate and getattr(estimate, name)],
    )

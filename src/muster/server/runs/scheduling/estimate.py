"""About when waiting runs start. For the first of a kind by nodes; for those behind it by numbers of devices alone."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from muster.server.runs.scheduling.capacity.pool_ledger import Kept, PoolLedger
from muster.server.runs.scheduling.capacity.quotas import Quota
from muster.server.runs.scheduling.capacity.reserving import likely
from muster.server.runs.scheduling.capacity.times import ENDLESS, likely_end
from muster.server.runs.scheduling.model import Estimate, Waiting

HORIZON = 500  # runs of one kind for which times are worked out
FAR = 4 * HORIZON  # runs of a queue that are looked through for them


def of_first(pool: PoolLedger, job: Waiting, kept: Sequence[Kept]) -> Estimate | None:
    """When a run for which a place is kept starts; None if a run that it waits for has no limit and no past."""
    found = likely(pool, job, kept)
    if found is None or not found.known:
        return None
    sources = [gang.likely for gang in found.waits_for]
    return Estimate(found.at - pool.now, any(each.limits for each in sources), any(each.past for each in sources))


def of_queue(pool: PoolLedger, jobs: Sequence[Waiting], first: Estimate | None) -> dict[str, Estimate]:
    """When runs of one kind start that wait in this order, none before one ahead of it. The first starts as is known."""
    if first is None or not jobs:
        return {}
    found = {jobs[0].id: first}
    kind = jobs[0].demand.kind
    counted = [room for room in pool.usable if room is not None and kind in room.shape.devices]
    free = sum(room.count(kind) for room in pool.rooms if room is not None) if counted else None
    slots = None if pool.pool.runs is None else pool.pool.runs - pool.active
    ends = [(gang.likely.at, number, gang.likely, _devices(gang.demand.kind == kind, gang.demand.total), bool(gang.id))
            for number, gang in enumerate(pool.gangs)]  # fmt: skip
    heapq.heapify(ends)
    now, limits, past = pool.now, first.limits, first.past
    moment = now
    for number, job in enumerate(jobs[:HORIZON]):
        needs = job.demand.total
        while (free is not None and free < needs) or (slots is not None and slots < 1):
            if not ends:
                return found
            moment_of, _, source, devices, is_run = heapq.heappop(ends)
            if moment_of >= ENDLESS:
                return found
            moment = max(moment, moment_of)
            limits, past = limits or source.limits, past or source.past
            free = None if free is None else free + devices
            slots = None if slots is None else slots + is_run
        if number == 0:
            moment = max(moment, now + first.seconds)
        found[job.id] = found.get(job.id) or Estimate(moment - now, limits, past)
        free = None if free is None else free - needs
        slots = None if slots is None else slots - 1
        end = likely_end(job, moment)
        heapq.heappush(ends, (end.at, len(pool.gangs) + number, end, needs, True))
    return found


def of_quota(now: float, quotas: Sequence[Quota], devices: int) -> Estimate | None:
    """When quotas leave so many devices; None if that cannot be known."""
    over = [quota.likely_when(devices) for quota in quotas if quota.held + devices > quota.most]
    if not over or any(each.at >= ENDLESS for each in over):
        return None
    latest = max(each.at for each in over)
    return Estimate(latest - now, any(each.limits for each in over), any(each.past for each in over))


def _devices(same: bool, total: int) -> int:
    return total if same else 0

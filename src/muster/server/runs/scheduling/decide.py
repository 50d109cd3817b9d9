"""One pass of the scheduler: which waiting runs start, who makes room for them, what is kept for whom."""

from __future__ import annotations

from muster.server.runs.scheduling.capacity.ledger import Ledger
from muster.server.runs.scheduling.capacity.misfits import Misfits
from muster.server.runs.scheduling.capacity.pool_ledger import PoolLedger
from muster.server.runs.scheduling.capacity.preempting import victims
from muster.server.runs.scheduling.capacity.quotas import Quota
from muster.server.runs.scheduling.capacity.reserving import earliest
from muster.server.runs.scheduling.capacity.times import Likely, end_of, likely_end
from muster.server.runs.scheduling.model import Decision, Preemption, Start, State, Waiting
from muster.server.runs.scheduling.ordering import ordered

TRIES = 2000  # demands of different sizes that a pass tries to backfill in a pool in vain: a bound for queues made to be slow


def decide(state: State) -> Decision:
    """Decides what starts now. A pure function: the same state, in whatever order, gives the same decision."""
    ledger = Ledger(state)
    starts: list[Start] = []
    preemptions: list[Preemption] = []
    passes = {name: _PoolPass(pool, starts, preemptions) for name, pool in ledger.pools.items()}
    has_quotas = bool(state.quotas)
    for job in ordered(state):
        one = passes.get(job.pool)
        if job.blocked is not None or one is None:
            ledger.aside[job.id] = job
        else:
            quotas = ledger.quotas.of(job) if has_quotas and not job.preemptible else ()
            if not one.look_at(job, quotas):
                ledger.positions[job.id] = len(one.waits)
                one.waits.append(job)
    return Decision(
        starts=tuple(starts),
        preemptions=tuple(preemptions),
        reservations=tuple(pool.reservation(kept) for pool in ledger.pools.values() for kept in pool.kept),
        order={name: tuple(one.waits) for name, one in passes.items()},
        ledger=ledger,
    )


class _PoolPass:
    """The pass over the queue of one pool."""

    def __init__(self, ledger: PoolLedger, starts: list[Start], preemptions: list[Preemption]) -> None:
        self._ledger, self._now = ledger, ledger.now
        self._starts, self._preemptions = starts, preemptions
        self._closed = ledger.pool.drained is not None
        self._misfits = Misfits()
        self.waits: list[Waiting] = []

    def look_at(self, job: Waiting, quotas: tuple[Quota, ...]) -> bool:
        """Starts a run if it may start; else it waits, and keeps a place if it is the first of its kind that does not fit."""
        if self._closed:
            return False
        head = self._ledger.heads.get(job.demand.kind)
        if head is not None and job.limit is None:
            return False
        end = end_of(self._now, job.limit)
        against = self._against(end)
        if self._misfits.has(job.demand, against) or (head is not None and self._misfits.count > TRIES):
            return False
        if quotas and not _admitted(job, quotas, end):
            return False
        parts = self._ledger.place(job.demand, end)
        if parts is None:
            if head is None and self._keep(job, quotas):
                return False
            self._misfits.add(job.demand, against)
            return False
        self._ledger.start(job, parts)
        for quota in quotas:
            quota.take(job.demand.total, end, likely_end(job, self._now))
        overtakes = () if head is None else (head.job.id,)
        self._starts.append(Start(job.id, job.pool, *self._ledger.named(parts), overtakes))
        return True

    def _against(self, end: float) -> int:
        """The kept places that a run which ends then has to leave, as bits."""
        bits = 0
        for number, kept in enumerate(self._ledger.kept):
            if kept.outlasted_by(end):
                bits |= 1 << number
        return bits

    def _keep(self, job: Waiting, quotas: tuple[Quota, ...]) -> bool:
        """Keeps a place for a run, for which preemptible ones may have to go. False if no usable nodes could ever do."""
        if not self._ledger.can_ever(job.demand):
            return False
        kept = earliest(self._ledger, job)
        if not job.preemptible and (kept is None or kept.at > self._now) and self._preempt(job):
            kept = earliest(self._ledger, job)
        if kept is None:
            return False
        self._ledger.keep(kept)
        for quota in quotas:
            quota.claim(job, kept.at)
        return True

    def _preempt(self, job: Waiting) -> bool:
        gone = victims(self._ledger, job)
        for gang in gone:
            gang.end, gang.likely = self._now, Likely(self._now)
            self._preemptions.append(Preemption(gang.id, job.id))
        return bool(gone)


def _admitted(job: Waiting, quotas: tuple[Quota, ...], end: float) -> bool:
    """False if a quota does not admit a run. The first that is over one has a claim on what becomes free of it."""
    devices = job.demand.total
    if all(quota.admits(devices, end) for quota in quotas):
        return True
    for quota in quotas:
        if quota.held + devices > quota.most and not quota.claims:
            quota.claim(job)
    return False

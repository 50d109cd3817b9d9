"""Why a run waits, in exact words, and whether a new one would."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from muster.server.runs.scheduling import estimate
from muster.server.runs.scheduling.capacity.placing import Parts
from muster.server.runs.scheduling.capacity.pool_ledger import Kept, PoolLedger
from muster.server.runs.scheduling.capacity.quotas import Quota
from muster.server.runs.scheduling.capacity.times import end_of
from muster.server.runs.scheduling.model import Decision, Estimate, Preview, Start, State, Wait, Waiting
from muster.server.runs.scheduling.ordering import key_of
from muster.server.runs.scheduling.reasons import Reason
from muster.server.runs.scheduling.why import of_nodes, of_quotas, of_those_ahead


def explain(state: State, decision: Decision, run_id: str) -> Wait:
    """Why a run waits after a pass, its position, and about when it starts. Raises KeyError for one that does not wait."""
    ledger = decision.ledger
    if aside := ledger.aside.get(run_id):
        return Wait(run_id, None, (aside.blocked or Reason("pool_gone", {"pool": aside.pool}),))
    position = ledger.positions[run_id]
    for jobs in decision.order.values():
        if position < len(jobs) and jobs[position].id == run_id:
            return _Case(state, decision, jobs[position], position).wait()
    raise KeyError(run_id)


def preview(state: State, decision: Decision, job: Waiting) -> Preview:
    """Whether a job would start in the next pass if it were submitted now, else why it would wait. Costs no pass."""
    if job.blocked is not None or job.pool not in decision.order:
        return Preview(None, Wait(job.id, None, (job.blocked or Reason("pool_gone", {"pool": job.pool}),)))
    key = key_of(state)
    case = _Case(state, decision, job, bisect_left(decision.order[job.pool], key(job), key=key))
    parts = case.start()
    if parts is None:
        return Preview(None, case.wait())
    nodes, ids = case.pool.named(parts)
    overtakes = tuple(kept.job.id for kept in case.before if kept.job.demand.kind == job.demand.kind)
    return Preview(Start(job.id, job.pool, nodes, ids, overtakes), None)


class _Case:
    """A run in the queue of its pool, as it is after a pass."""

    def __init__(self, state: State, decision: Decision, job: Waiting, position: int) -> None:
        self._decision, self._job, self._position = decision, job, position
        self.pool: PoolLedger = decision.ledger.pools[job.pool]
        key = key_of(state)
        place = key(job)
        self.before: list[Kept] = [kept for kept in self.pool.kept if key(kept.job) < place]
        self._own = next((kept for kept in self.pool.kept if kept.job.id == job.id), None)
        self._quotas: Sequence[Quota] = () if job.preemptible else decision.ledger.quotas.of(job)
        self._claims = [
            (quota, claim)
            for quota in self._quotas
            for claim in quota.claims
            if key(claim.job) < place and claim.job.id != job.id
        ]
        self._end = end_of(state.now, job.limit)
        self._head = next((kept for kept in self.before if kept.job.demand.kind == job.demand.kind), None)

    def start(self) -> Parts | None:
        """Where it would start now."""
        if self.pool.pool.drained or self._quota_reasons() or (self._head and self._job.limit is None):
            return None
        return self.pool.place(self._job.demand, self._end, self.before)

    def wait(self) -> Wait:
        reasons = tuple(self._reasons()) or (Reason("next_pass"),)
        return Wait(self._job.id, self._position + 1, reasons, self._estimate())

    def _reasons(self) -> list[Reason]:
        pool, job = self.pool, self._job
        if pool.pool.drained is not None:
            return [Reason("pool_drained", {"pool": pool.pool.name, "why": pool.pool.drained})]
        reasons = self._quota_reasons()
        if pool.full:
            reasons.append(Reason("runs", {"runs": pool.active}))
        lacking = of_nodes(pool, job.demand)
        reasons += lacking
        return reasons + of_those_ahead(pool, job, self.before, self._own, self._end, not lacking and not reasons)

    def _quota_reasons(self) -> list[Reason]:
        return of_quotas(self._job, self._quotas, self._claims, self._end)

    def _estimate(self) -> Estimate | None:
        """When it starts: when quotas leave enough for it, and nodes as well."""
        pool, job = self.pool, self._job
        devices = job.demand.total
        if pool.pool.drained is not None or not pool.can_ever(job.demand):
            return None
        by_nodes = self._by_nodes()
        if all(quota.held + devices <= quota.most for quota in self._quotas):
            return by_nodes
        by_quota = estimate.of_quota(pool.now, self._quotas, devices)
        if by_nodes is None or by_quota is None or any(devices > quota.most for quota in self._quotas):
            return None
        later = max(by_nodes.seconds, by_quota.seconds)
        return Estimate(later, by_nodes.limits or by_quota.limits, by_nodes.past or by_quota.past)

    def _by_nodes(self) -> Estimate | None:
        if self._head is None:
            return estimate.of_first(self.pool, self._job, self.before)
        found = self._of_queue(self._head).get(self._job.id)
        return found if found is not None and (found.limits or found.past) else None

    def _of_queue(self, head: Kept) -> dict[str, Estimate]:
        """Estimates of the queue from its head on; those of runs that take part in it are worked out once."""
        kind, known = self._job.demand.kind, self._decision.ledger.estimates
        queue = self._decision.order[self.pool.pool.name]
        waits = self._position < len(queue) and queue[self._position].id == self._job.id and self._takes_part(self._job)
        if waits and (self.pool.pool.name, kind) in known:
            return known[self.pool.pool.name, kind]
        firsts = self._decision.ledger.first_estimates
        if (self.pool.pool.name, kind) not in firsts:
            before = self.pool.kept[: self.pool.kept.index(head)]
            firsts[self.pool.pool.name, kind] = estimate.of_first(self.pool, head.job, before)
        first = firsts[self.pool.pool.name, kind]
        begin = self._decision.ledger.positions[head.job.id]
        end = begin + estimate.FAR if waits else min(self._position, begin + estimate.FAR)
        ahead = [
            job
            for job in queue[begin:end]
            if job.demand.kind == kind and self._takes_part(job) and self.pool.can_ever(job.demand)
        ]
        found = estimate.of_queue(self.pool, ahead if waits else [*ahead, self._job], first)
        if waits:
            known[self.pool.pool.name, kind] = found
        return found

    def _takes_part(self, job: Waiting) -> bool:
        """False for one that is over a quota."""
        quotas = () if job.preemptible else self._decision.ledger.quotas.of(job)
        return all(quota.held + job.demand.total <= quota.most for quota in quotas)

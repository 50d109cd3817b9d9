"""All pools and quotas during a pass, and as they are after it."""

from __future__ import annotations

from muster.server.runs.scheduling.capacity.pool_ledger import PoolLedger
from muster.server.runs.scheduling.capacity.quotas import Quotas
from muster.server.runs.scheduling.capacity.times import Ends
from muster.server.runs.scheduling.model import Estimate, Running, State, Waiting


class Ledger:
    def __init__(self, state: State) -> None:
        self.ends = Ends(state.now)
        by_pool: dict[str, list[Running]] = {}
        for run in state.running:
            by_pool.setdefault(run.pool, []).append(run)
        named = {name for job in state.waiting if job.demand.on for name in job.demand.on}
        self.pools = {pool.name: PoolLedger(pool, by_pool.get(pool.name, ()), self.ends, named) for pool in state.pools}
        self.quotas = Quotas(state, self.ends)
        self.positions: dict[str, int] = {}  # in the pool, from 0, of eligible runs that wait
        self.aside: dict[str, Waiting] = {}  # runs that take no part
        self.estimates: dict[tuple[str, str], dict[str, Estimate]] = {}  # by pool and kind, filled when somebody asks
        self.first_estimates: dict[tuple[str, str], Estimate | None] = {}

"""Quotas: devices that non-preemptible runs of a project, or of a user in it, hold at once.

The first run that is over a quota has a claim on what becomes free of it: else smaller ones of its project would always
overtake it.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.server.runs.scheduling.capacity.times import ENDLESS, Ends, Likely
from muster.server.runs.scheduling.model import Running, State, Waiting


@dataclass(slots=True)
class Claim:
    """Devices of a quota that are kept for a run: what later runs take must leave them, or be over before."""

    job: Waiting
    devices: int
    at: float  # when they are there by time limits, or later than all times if a run has none
    extra: int  # devices that runs which are not over by then may take

    def outlasted_by(self, end: float) -> bool:
        return end > self.at or self.at >= ENDLESS


class Quota:
    """One quota, and who holds what of it."""

    def __init__(self, project: str, user: str, kind: str, most: int) -> None:
        self.project, self.user, self.kind, self.most = project, user, kind, most
        self.held = 0
        self._ends: list[tuple[float, int]] = []
        self._likely: list[tuple[float, int, Likely]] = []
        self.claims: list[Claim] = []

    @property
    def left(self) -> int:
        return max(0, self.most - self.held)

    def admits(self, devices: int, ends: float) -> bool:
        return self.held + devices <= self.most and self.stands_before(devices, ends) is None

    def stands_before(self, devices: int, ends: float) -> Claim | None:
        """The claim that a run would delay."""
        return next((claim for claim in self.claims if claim.outlasted_by(ends) and devices > claim.extra), None)

    def take(self, devices: int, ends: float, likely: Likely) -> None:
        self.held += devices
        self._ends.append((ends, devices))
        self._likely.append((likely.at, devices, likely))
        for claim in self.claims:
            if claim.outlasted_by(ends):
                claim.extra -= devices

    def claim(self, job: Waiting, at: float | None = None) -> None:
        """Keeps devices for a run from `at` on, or once holders have to be gone. One that can never have them gets none."""
        devices = job.demand.total
        if devices > self.most:
            return
        kept = sum(claim.devices for claim in self.claims)
        when = self._when(devices + kept) if at is None else at
        held = sum(count for end, count in self._ends if end > when)
        self.claims.append(Claim(job, devices, when, max(0, self.most - held - kept - devices)))

    def likely_when(self, devices: int) -> Likely:
        """When so many devices are probably left, and what says so."""
        left, limits, past = self.most - self.held, False, False
        for at, count, source in sorted(self._likely, key=lambda end: end[0]):
            left, limits, past = left + count, limits or source.limits, past or source.past
            if left >= devices:
                return Likely(at, limits, past)
        return Likely(ENDLESS)

    def _when(self, devices: int) -> float:
        left = self.most - self.held
        for end, count in sorted(self._ends):
            left += count
            if left >= devices:
                return end
        return ENDLESS


class Quotas:
    def __init__(self, state: State, ends: Ends) -> None:
        self._quotas = {key: Quota(*key, most) for key, most in state.quotas.items()}
        self._found: dict[tuple[str, str, str], tuple[Quota, ...]] = {}
        for run in state.running:
            if not run.preemptible:
                for quota in self.of(run):
                    quota.take(run.demand.total, ends.by_limit(run), ends.likely(run))

    def of(self, run: Waiting | Running) -> tuple[Quota, ...]:
        """The quotas that a non-preemptible run counts against: that of its project, that of its user there."""
        key = (run.project, run.user, run.demand.kind)
        found = self._found.get(key)
        if found is None:
            keys = ((run.project, "", run.demand.kind), key)
            found = self._found[key] = tuple(self._quotas[each] for each in keys if each in self._quotas)
        return found

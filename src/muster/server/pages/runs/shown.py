"""What pages show of runs: the API's object of a run with its reason in both languages, and what the viewer may do with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase
from muster.server.core.access import Owned, Principal, may
from muster.server.runs import chinese, present, rows
from muster.server.runs.checking import PRIORITIES
from muster.server.runs.platform import Platform
from muster.server.runs.queue import view as queue_view
from muster.server.runs.rows import Row
from muster.server.runs.scheduling.model import Wait


@dataclass(frozen=True)
class Shown:
    """One run on a page."""

    row: Row
    run: dict[str, Any]
    reason: Phrase | None
    changeable: bool  # by the viewer: stop, delete, pause, priority
    priorities: tuple[int, int]  # the least and the highest that the viewer may give
    own_queue: bool  # the pool's engine has one, which alone decides over runs that were handed to it

    @property
    def stoppable(self) -> bool:
        return self.changeable and self.row.stage != rows.ENDED

    @property
    def paused(self) -> bool:
        return self.row.paused is not None

    @property
    def pausable(self) -> bool:
        return self.stoppable and not self.paused and (self.row.stage == rows.WAITING or not self.own_queue)

    @property
    def rankable(self) -> bool:
        """True if the viewer may change its priority, which matters while it waits."""
        return self.changeable and self.row.stage == rows.WAITING

    @property
    def ended(self) -> bool:
        return self.row.stage == rows.ENDED

    @property
    def until(self) -> float | None:
        """When its time stopped to count: at its end, or when it was preempted and came back into the queue."""
        ended: float | None = self.run.get("ended")
        return self.row.waiting_since if self.row.stage == rows.WAITING else ended

    @property
    def devices(self) -> str:
        """Nodes and devices, such as `2 × 8 ascend`."""
        job = self.row.job
        kind = job.get("device") or ""
        return f"{job.get('nodes') or 1} × {job.get('devices') or 1} {kind}".strip()


def shown(platform: Platform, principal: Principal, row: Row, detailed: bool = False) -> Shown:
    """A run of a list; `detailed` reads its directory, too."""
    waits = queue_view.why(platform, principal, row.id) if row.stage == rows.WAITING else None
    run = present.waiting_for(row, waits, platform)
    if detailed:
        run = present.details(platform, row, run)
    changeable = may(principal, "runs.change", Owned(row.user, row.project))
    own_queue = platform.pools[row.pool].settings.engine == "slurm"
    return Shown(row, run, _reason(row, run, waits), changeable, PRIORITIES[principal.role == "administrator"], own_queue)


def many(platform: Platform, principal: Principal, found: Sequence[Row]) -> list[Shown]:
    """The runs of a list, with their places in queues."""
    return [shown(platform, principal, row) for row in found]


def _reason(row: Row, run: dict[str, Any], waits: Wait | None) -> Phrase | None:
    """Why a run stands as it does; what programs said themselves is the same in both languages."""
    english = str(run.get("reason") or "")
    if waits is None:
        return Phrase(english, chinese.reason(english)) if english else None
    before = [chinese.reason(str(row.view["reason"]))] if row.view else []
    return Phrase(english, "；".join([*before, waits.words("zh")]))

"""What is deleted of which runs: a pure function of the settings of a project and the sizes of its runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.records.text import units
from muster.server.core.accounts.project_settings import Kept, Retention

What = Literal["logs", "outputs", "records"]
OLD = "it ended more than {} ago"
LARGE = "the {} of the project take {}, more than {}, and these are the oldest"


@dataclass(frozen=True)
class Sizes:
    """The bytes of a run's directory on disk."""

    logs: int = 0
    outputs: int = 0
    record: int = 0

    @property
    def all(self) -> int:
        return self.logs + self.outputs + self.record


@dataclass(frozen=True)
class EndedRun:
    id: str
    name: str
    ended: float
    pinned: bool
    sizes: Sizes


@dataclass(frozen=True)
class Deletion:
    """Files of a run that go: its logs, its outputs, or all of it."""

    run: str
    name: str
    ended: float
    what: What
    bytes: int
    why: str


def plan(runs: Sequence[EndedRun], retention: Retention, now: float) -> list[Deletion]:
    """Returns what goes, the oldest runs first. Pinned runs count where sizes are limited, and nothing of them goes."""
    oldest = sorted(runs, key=lambda run: (run.ended, run.id))
    logs = _chosen(oldest, "logs", retention.logs, now, lambda run: run.sizes.logs)
    outputs = _chosen(oldest, "outputs", retention.outputs, now, lambda run: run.sizes.outputs)

    def left(run: EndedRun) -> int:
        return run.sizes.all - sum(found[run.id].bytes for found in (logs, outputs) if run.id in found)

    records = _chosen(oldest, "records", retention.records, now, left)
    whole = {run.id: run.sizes.all for run in oldest}
    found: list[Deletion] = []
    for run in oldest:
        if run.id in records:
            gone = records[run.id]
            found.append(Deletion(gone.run, gone.name, gone.ended, "records", whole[run.id], gone.why))
        else:
            found += [part[run.id] for part in (logs, outputs) if run.id in part]
    return found


def _chosen(
    oldest: Iterable[EndedRun], what: What, kept: Kept, now: float, size: Callable[[EndedRun], int]
) -> dict[str, Deletion]:
    """Runs of which something goes because it is old, and then those that are too large together."""
    runs = [run for run in oldest if what == "records" or size(run)]
    found: dict[str, Deletion] = {}
    if kept.age is not None:
        why = OLD.format(units.duration(kept.age))
        old = [run for run in runs if not run.pinned and run.ended < now - kept.age]
        found = {run.id: Deletion(run.id, run.name, run.ended, what, size(run), why) for run in old}
    if kept.size is None:
        return found
    total = sum(size(run) for run in runs if run.id not in found)
    why = LARGE.format(what, units.size(total), units.size(kept.size))
    for run in runs:
        if total <= kept.size:
            break
        if not run.pinned and run.id not in found:
            found[run.id] = Deletion(run.id, run.name, run.ended, what, size(run), why)
            total -= size(run)
    return found

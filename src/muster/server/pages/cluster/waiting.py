"""The queue as a page shows it: why runs wait in both languages, and what the viewer may do with each."""

from dataclasses import dataclass

from muster.bench.report.phrase import Phrase
from muster.server.core.access import Caller, Owned, may
from muster.server.core.authentication import Context
from muster.server.pages.texts import say
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.queue import view as queue_view
from muster.server.runs.queue.view import QueueEntry

PAGE = 100


@dataclass(frozen=True)
class Entry:
    """A run that waits, and what its viewer may do with it."""

    queued: QueueEntry
    name: str
    reason: Phrase
    expected: Phrase | None
    paused: bool
    changeable: bool
    movable: bool
    last: bool  # nothing follows it in its pool


def entries(context: Context, platform: Platform, caller: Caller, offset: int) -> tuple[list[Entry], bool]:
    """A page of the queue, and whether there is more of it."""
    found = queue_view.waiting(platform, caller.principal, None, offset, PAGE + 1)
    with context.database.read() as connection:
        known = {row.id: row for row in rows.many(connection, [one.id for one in found])}
    shown = []
    for index, one in enumerate(found[:PAGE]):
        row = known.get(one.id)
        if row is None or row.stage != rows.WAITING:  # it has started since the last pass
            continue
        english = queue_view.entry(platform, caller.principal, one, "en")
        chinese = queue_view.entry(platform, caller.principal, one, "zh")
        following = found[index + 1] if index + 1 < len(found) else None
        shown.append(
            Entry(
                english,
                row.name,
                Phrase(english.reason, chinese.reason),
                about(english.expected) if english.expected is not None else None,
                row.paused is not None,
                may(caller.principal, "runs.change", Owned(row.user, row.project)),
                may(caller.principal, "queue.order") and one.blocked is None,
                following is None or following.pool != one.pool or following.blocked is not None,
            )
        )
    return shown, len(found) > PAGE


def about(seconds: float) -> Phrase:
    """An estimate in words, to the minute, hour or day."""
    minutes = max(1, round(seconds / 60))
    if minutes < 90:
        return say("queue.about.min", count=minutes)
    return (
        say("queue.about.h", count=round(minutes / 60))
        if minutes < 48 * 60
        else say("queue.about.d", count=round(minutes / 1440))
    )

"""Settings of a project for its runs: its weight in the queue, idle devices, long waits, its template, retention.

They are kept as they were written, with the times and sizes of job files, and read here.
"""

from collections.abc import Mapping
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds import Duration, Item, Number, Section, Size, Text, Wrong, declared, typed
from muster.tester.errors import Denied
from muster.tester.protocol import ALLOWED, NAME

LONG_WAIT = IDLE_WARN = 3600.0  # seconds
NEVER = "never"
MOST_WEIGHT = 1000.0
BY_ADMINISTRATORS = ("weight",)  # settings that concern other projects, too


class Weight(Number):
    words = f"a number above 0, at most {MOST_WEIGHT:g}"

    def read(self, item: Item) -> float:
        found = super().read(item)
        if item.number is None or not 0 < found <= MOST_WEIGHT:
            raise Wrong(f"{item.shown} is not {self.words}", "1 is that of projects without one")
        return found


class TemplateName(Text):
    words = "the name of a template"

    def read(self, item: Item) -> str:
        found = super().read(item)
        if not NAME.fullmatch(found):
            raise Wrong(f"{item.shown} is not {self.words}", ALLOWED)
        return found


class Bytes(Size):
    """A size; a number counts bytes, of which there may be none."""

    def read(self, item: Item) -> int:
        return 0 if item.text in ("0", "0.0") else super().read(item)


class Limit(Duration):
    """A time, or `never`."""

    def read(self, item: Item) -> float | None:  # type: ignore[override]
        return None if item.text == NEVER else super().read(item)


@dataclass(frozen=True)
class Kept:
    """How long and how much of a kind of files of runs is kept; None is for ever, and all of it."""

    age: float | None = declared(Duration(zero=True), None, "Since the end of the run.")
    size: int | None = declared(Bytes(), None, "Of all runs of the project together; the oldest go first.")


_KEPT = Section(Kept, "{age: 90d, size: 500G}")


@dataclass(frozen=True)
class Retention:
    """What is deleted of runs that have ended and are not pinned."""

    logs: Kept = declared(_KEPT, Kept(), "What processes wrote to their output.")
    outputs: Kept = declared(_KEPT, Kept(), "Working copies, outputs and shared files in the directories of runs.")
    records: Kept = declared(_KEPT, Kept(), "Whole runs.")


@dataclass(frozen=True)
class ProjectSettings:
    weight: float = declared(Weight(), 1.0, "The share of devices, against other projects.")
    idle_warn_after: float | None = declared(Limit(), IDLE_WARN, "Runs whose devices idle for so long are warned of.")
    stop_idle_after: float | None = declared(Limit(), None, "Runs whose devices idle for so long are stopped.")
    long_wait: float = declared(Duration(), LONG_WAIT, "A run that waits for longer is told to webhooks.")
    template: str = declared(TemplateName(), "", "The template with which a submission begins.")
    retention: Retention = declared(Section(Retention, "{records: {age: 90d}}"), Retention(), "What is deleted of old runs.")


def read(written: Mapping[str, Any] | None) -> ProjectSettings:
    """Returns settings as values. Raises Denied with all that is wrong."""
    try:
        found: ProjectSettings = Section(ProjectSettings).read(typed(written or {}))
    except Wrong as wrong:
        raise Denied(400, "; ".join(f"`{one.name}` {one.message}: {one.hint}" for one in wrong.each)) from None
    return found


def changed(written: Mapping[str, Any] | None, sets: list[str]) -> dict[str, Any]:
    """Returns settings with changes such as `retention.logs.age=30d`; without a value the setting is removed."""
    found = dict(written or {})
    for text in sets:
        path, equals, value = text.partition("=")
        *outer, last = path.strip().split(".")
        if not equals or not last or len(outer) > 2:
            raise Denied(400, f"`{text}` is not NAME=VALUE, such as retention.logs.age=30d")
        inner = found
        for name in outer:
            inner[name] = dict(inner[name]) if isinstance(inner.get(name), dict) else {}
            inner = inner[name]
        if value:
            inner[last] = value
        else:
            inner.pop(last, None)
    return without_empty(found)


def without_empty(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings without those that are null or hold nothing."""
    plain = {name: without_empty(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    return {name: value for name, value in plain.items() if value not in (None, {}, "")}

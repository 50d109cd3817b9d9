"""Reasons as data, with words in English and Chinese. Callers make `paused`, `after`, `drained` and `failed_check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from muster.server.runs.scheduling.texts import TEXTS, Number, duration, gibibytes

if TYPE_CHECKING:
    from muster.server.runs.scheduling.model import Estimate

NAMED = 3  # runs or nodes that a sentence names; of more it says how many


@dataclass(frozen=True)
class Reason:
    code: str  # for programs: a key of TEXTS
    values: Mapping[str, object] = field(default_factory=dict)

    def words(self, language: str = "en") -> str:
        """The reason in English ("en") or Chinese ("zh")."""
        text = TEXTS[self.code][language == "zh"]
        return text.format_map({name: _worded(value, language) for name, value in self.values.items()})

    def without_runs(self, seen: Callable[[str], bool]) -> Reason:
        """The same without the ids of runs that the reader may not see."""
        values = dict(self.values)
        if "run" in values:
            values["run"] = _shown(str(values["run"]), seen)
        if self.code == "making_room" and isinstance(names := values["names"], Names):
            values["names"] = Names(tuple(_shown(name, seen) if isinstance(name, str) else name for name in names.all))
        return replace(self, values=values)


def _shown(run: str, seen: Callable[[str], bool]) -> str | Reason:
    return run if seen(run) else Reason("of_others")


def paused(by: str) -> Reason:
    """The run was paused by a user."""
    return Reason("paused", {"by": by})


def after(runs: str) -> Reason:
    """The run waits for others; `runs` names them and what must become of them, as it was written."""
    return Reason("after", {"runs": runs})


def drained(by: str, why: str = "") -> Reason:
    """A node or a pool takes no new runs."""
    return Reason("drained_because", {"by": by, "why": why}) if why else Reason("drained", {"by": by})


def failed_check(why: str) -> Reason:
    """A node did not pass its last check."""
    return Reason("failed_check", {"why": why})


def line(reasons: Sequence[Reason], estimate: Estimate | None, language: str) -> str:
    """Reasons and estimate in one line."""
    said = [reason.words(language) for reason in reasons]
    if estimate is not None:
        said.append(expected(estimate).words(language))
    return ("；" if language == "zh" else "; ").join(said)


def expected(estimate: Estimate) -> Reason:
    if not estimate.limits and not estimate.past:
        return Reason("expected_soon")
    source = "limits_and_past" if estimate.limits and estimate.past else "limits" if estimate.limits else "past"
    return Reason("expected", {"time": Duration(estimate.seconds), "source": Reason(source)})


@dataclass(frozen=True)
class Duration:
    seconds: float

    def words(self, language: str) -> str:
        return duration(self.seconds, language)


@dataclass(frozen=True)
class Amount:
    """Bytes of memory."""

    amount: int

    def words(self, language: str) -> str:
        return gibibytes(self.amount)


@dataclass(frozen=True)
class Names:
    """Some names, of which a sentence has the first few."""

    all: tuple[str | Reason, ...]

    def words(self, language: str) -> str:
        shown = [name if isinstance(name, str) else name.words(language) for name in self.all[:NAMED]]
        if more := len(self.all) - NAMED:
            shown += [Reason("more", {"count": more}).words(language)] if more > 0 else []
        return ("、" if language == "zh" else ", ").join(shown)


def _worded(value: object, language: str) -> object:
    words = getattr(value, "words", None)
    if words is not None:
        return words(language)
    return Number(value) if isinstance(value, int) else value

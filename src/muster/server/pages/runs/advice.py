"""Why a run stands as it does, in words, and what its owner can do next."""

from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase, same
from muster.server.pages.texts import TEXTS, say


@dataclass(frozen=True)
class Advice:
    why: Phrase  # the reason that its record has; in Chinese where Muster knows the cause
    next: Phrase | None


def advice(run: dict[str, Any]) -> Advice:
    """What to say about a run, from its details."""
    state, failure = str(run.get("state")), run.get("failure") or {}
    why = same(run.get("reason") or "")
    if run.get("paused") and state == "pending":
        return Advice(why, say("job.next.paused"))
    if state == "pending":
        return Advice(why, say("job.next.waiting"))
    if state == "succeeded":
        return Advice(why, say("job.next.succeeded"))
    if state not in ("failed", "stopped", "lost", "damaged"):
        return Advice(why, None)
    attempts = run.get("attempts") or [{}]
    cause = state if state in ("lost", "damaged") else str(attempts[-1].get("cause") or "")
    if cause in ("failure", "") and failure:
        cause = str(failure.get("kind") or "unknown")
    if failure.get("oom") is True:
        cause = "oom"
    known = cause if f"job.next.{cause}" in TEXTS else "stop" if state == "stopped" else "unknown"
    return Advice(_why(cause, failure, why), say(f"job.next.{known}"))


def _why(cause: str, failure: dict[str, Any], reason: Phrase) -> Phrase:
    key = f"job.why.{cause}"
    numbers = {name: failure.get(name) for name in ("rank", "node", "code", "signal")}
    if key not in TEXTS or not isinstance(numbers["rank"], int) or numbers["rank"] < 0:
        return reason
    said = str(failure.get("exception") or "")
    return Phrase(reason.en, " ".join(filter(None, [say(key, **numbers).zh, said])))

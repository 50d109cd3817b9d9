"""Why a run stands as it does, in words, and what its owner can do next."""

from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase, same
from muster.server.pages.texts import TEXTS, say


@dataclass(frozen=True)
class Advice:
    why: Phrase
    next: Phrase | None


def advice(run: dict[str, Any]) -> Advice:
    """What to say about a run, from its details with the reason in both languages."""
    state, failure = str(run.get("state")), run.get("failure") or {}
    why = run.get("reason") or same("")
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
    return Advice(why, say(f"job.next.{known}"))

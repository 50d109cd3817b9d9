"""What the tester says of a bundle that somebody sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """Accepted means verified and kept; passed is what the result says of the benchmark itself."""

    accepted: bool
    problems: list[str] = field(default_factory=list)
    bench: str | None = None
    number: int | None = None
    page: str | None = None
    passed: bool | None = None
    metric: str | None = None
    value: float | None = None
    unit: str | None = None
    signature: str = "none"
    signed_by: str | None = None


def sentences(verdict: Verdict, url: str) -> list[str]:
    """A verdict of the tester at an address in words, one line each."""
    if not verdict.accepted:
        first, *others = map(printable, verdict.problems or ["no reason was given"])
        return [f"refused by {url}: {first}", *(f"  {problem}" for problem in others)]
    measured = f", {verdict.metric} {verdict.value:,.6g} {verdict.unit}" if verdict.value is not None else ""
    passed = "it passed" if verdict.passed else "it did not pass"
    return [printable(f"accepted by {url} as result {verdict.number}: {passed}{measured}; see {url}{verdict.page}")]


def printable(text: str) -> str:
    """A text of the other side without what would move a cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def read(data: Mapping[str, Any]) -> Verdict:
    """A verdict as the tester wrote it; keys that a newer one adds are passed over."""
    return Verdict(**{name: data[name] for name in Verdict.__dataclass_fields__ if name in data})

"""Records of the tester's protocol: a test plan, an upload that was opened, and the verdict on a bundle."""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.records.untrusted import printable
from muster.tester.errors import Misused

LETTERS = string.ascii_letters + string.digits
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ALLOWED = "write up to 64 letters, digits, dots, dashes or underscores"
MODES = ("training", "inference")


@dataclass(frozen=True)
class Plan:
    """A test plan: the measurement that one test id stands for, in AISBench's terms."""

    test_id: str
    model: str
    mode: str = "training"
    division: str = "close"
    scenario: str = "generic"
    object_type: str = "single"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Reads a plan; other keys are ignored."""
        return cls(**{name: str(data[name]) for name in cls.__dataclass_fields__})

    def to_json(self) -> dict[str, str]:
        return dict(vars(self))

    def check(self) -> None:
        """Raises Misused for ids and names that do not fit on a command line and in a URL."""
        for name, value in self.to_json().items():
            if not NAME.fullmatch(value):
                raise Misused(f"`{value}` cannot be the {name.replace('_', ' ')} of a plan; {ALLOWED}")


def new_test_id(now: float) -> str:
    """Returns an id such as 20210126-ljp0IY, which begins with the date."""
    return time.strftime("%Y%m%d-", time.gmtime(now)) + "".join(secrets.choice(LETTERS) for _ in range(6))


@dataclass(frozen=True)
class Verdict:
    """Accepted means verified and stored; passed is what the result says about the benchmark itself."""

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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Reads a verdict; keys that a newer tester adds are ignored."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def sentences(self, url: str) -> list[str]:
        """The verdict of the tester at `url` in words, one line each."""
        if not self.accepted:
            first, *others = map(printable, self.problems or ["no reason was given"])
            return [f"refused by {url}: {first}", *(f"  {problem}" for problem in others)]
        measured = f", {self.metric} {self.value:,.6g} {self.unit}" if self.value is not None else ""
        passed = "it passed" if self.passed else "it did not pass"
        return [printable(f"accepted by {url} as result {self.number}: {passed}{measured}; see {url}{self.page}")]


@dataclass(frozen=True)
class OpenedUpload:
    """An upload to continue at `offset`, in requests of at most `chunk` bytes; or the verdict, where the bundle is known."""

    id: str | None
    offset: int
    chunk: int
    verdict: Verdict | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OpenedUpload:
        verdict = Verdict.from_json(data["verdict"]) if data.get("verdict") else None
        return cls(data["id"], int(data["offset"]), int(data["chunk"]), verdict)

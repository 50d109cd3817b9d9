"""A test plan: what is to be measured under one test id, in AISBench's terms."""

from __future__ import annotations

import re
import secrets
import string
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.tester.errors import Misused

LETTERS = string.ascii_letters + string.digits
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ALLOWED = "write up to 64 letters, digits, dots, dashes or underscores"
MODES = ("training", "inference")


@dataclass(frozen=True)
class Plan:
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
        for field, value in self.to_json().items():
            if not NAME.fullmatch(value):
                raise Misused(f"`{value}` cannot be the {field.replace('_', ' ')} of a plan; {ALLOWED}")


def new_test_id(now: float) -> str:
    """Returns an id such as 20210126-ljp0IY, which begins with the date."""
    return time.strftime("%Y%m%d-", time.gmtime(now)) + "".join(secrets.choice(LETTERS) for _ in range(6))

"""A test plan: what is to be measured under one test id, in AISBench's terms."""

from __future__ import annotations

import re
import secrets
import string
import time
from dataclasses import dataclass

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


def new_id(now: float) -> str:
    """An id such as 20210126-ljp0IY, which says when the plan was made."""
    return time.strftime("%Y%m%d-", time.gmtime(now)) + "".join(secrets.choice(LETTERS) for _ in range(6))


def checked(plan: Plan) -> Plan:
    """The plan, if ids and names in it can be written on a command line and in an address."""
    for field, value in vars(plan).items():
        if not NAME.fullmatch(value):
            what = field.replace("_", " ")
            raise Misused(f"`{value}` cannot be the {what} of a plan; {ALLOWED}")
    return plan

"""The form of a final record: what `final.json` may hold. A rank can write that file, too."""

from __future__ import annotations

import math
from typing import Any, Callable

from muster.records.damage import DAMAGED
from muster.records.json_safe import number

ENDS = ("succeeded", "failed", "stopped", "lost", DAMAGED)
LATEST = 253402300799.0  # the last second that calendars know


def _moment(value: Any) -> bool:
    """Whether a value can be a time or a count, or is not known."""
    return value is None or (number(value) is not None and 0 <= value <= LATEST)


def _finite(value: Any) -> bool:
    found = number(value)
    return value is None or (found is not None and math.isfinite(found))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _named(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


_Checks = dict[str, Callable[[Any], bool]]
_VIEW: _Checks = {
    **dict.fromkeys(("run", "phase", "reason", "dir", "name"), _text),
    **dict.fromkeys(("framework", "engine", "user"), _named),
    **dict.fromkeys(("nodes", "ranks", "up", "attempt", "created", "started", "ended"), _moment),
}
_ATTEMPT: _Checks = {
    **dict.fromkeys(("state", "reason", "cause"), _text),
    **dict.fromkeys(("attempt", "started", "ended"), _moment),
}
_VALUE: _Checks = {"value": _finite, "unit": _text, "reason": _named}


def _holds(data: Any, checks: _Checks) -> bool:
    """Whether data is an object with these keys, each with what it may hold."""
    return isinstance(data, dict) and all(key in data and check(data[key]) for key, check in checks.items())


def can_be_shown(view: dict[str, Any]) -> bool:
    """Whether a view holds what people and programs expect under its keys."""
    return _holds(view, _VIEW) and _texts(view.get("warnings", []))  # an older record has none


def is_final(data: dict[str, Any]) -> bool:
    """Whether data has the form of a final record."""
    attempts, result = data.get("attempts"), data.get("result")
    return (
        data.get("state") in ENDS
        and can_be_shown(data)
        and isinstance(attempts, list)
        and all(_holds(attempt, _ATTEMPT) and _is_failure(attempt.get("failure")) for attempt in attempts)
        and _is_failure(data.get("failure"))
        and (result is None or (isinstance(result, dict) and all(_holds(entry, _VALUE) for entry in result.values())))
    )


def _is_failure(failure: Any) -> bool:
    return failure is None or _holds(failure, {"tail": _texts, "others": _texts})

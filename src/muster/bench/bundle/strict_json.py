"""Reads JSON of others without losing a digit, and finds where two values differ."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from muster.records.untrusted import parse_json

LONGEST_NUMBER = 400  # letters; a 64-bit float needs no more than 325
SHOWN = 80  # letters of a value in a difference
_NOTHING = object()  # a missing value
_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*\Z")


class NotExact(ValueError):
    """Ambiguous or invalid JSON: a duplicate key, NaN, a syntax error."""


def loads(text: bytes | str) -> Any:
    """The value of a JSON text, each number as a Decimal with all the digits that stand there."""
    return _parsed(text, _number)


def check(text: bytes) -> None:
    """Raises NotExact for a document that Muster cannot have written, such as one with more digits than a float has."""
    _parsed(text, _as_written)


def check_lines(path: Path) -> None:
    """The same for JSON lines; lines that a crash cut off are skipped, and NaN is allowed, as ranks may measure it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                parse_json(line)  # lines that no reader takes are skipped
                json.loads(line, parse_float=_as_written, object_pairs_hook=_object)
            except NotExact as error:
                raise NotExact(f"line {number} {error}") from None
            except ValueError:
                continue


def _parsed(text: bytes | str, number: Callable[[str], Decimal]) -> Any:
    try:
        read = text.decode() if isinstance(text, bytes) else text
        return json.loads(read, parse_int=_number, parse_float=number, parse_constant=_constant, object_pairs_hook=_object)
    except RecursionError:
        raise NotExact("is nested too deeply") from None
    except UnicodeDecodeError:
        raise NotExact("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise NotExact(f"is not JSON: {error.msg.lower()} in line {error.lineno}") from None


def differences(there: Any, follows: Any, path: str = "") -> Iterator[str]:
    """The differences between the recorded value and the one that follows from the records, leaf by leaf."""
    if there is _NOTHING:
        yield f"{path}: is missing, {shown(follows)} follows from the records"
    elif follows is _NOTHING:
        yield f"{path}: {shown(there)} stands there, nothing follows from the records"
    elif isinstance(there, dict) and isinstance(follows, dict):
        for key in dict.fromkeys((*follows, *there)):
            yield from differences(there.get(key, _NOTHING), follows.get(key, _NOTHING), _join(path, key))
    elif isinstance(there, list) and isinstance(follows, list):
        if len(there) != len(follows):
            yield f"{path}: {len(there)} entries stand there, {len(follows)} follow from the records"
        for index, (left, right) in enumerate(zip(there, follows, strict=False)):
            yield from differences(left, right, f"{path}[{index}]")
    elif type(there) is not type(follows) or there != follows:
        yield f"{path}: {shown(there)} stands there, {shown(follows)} follows from the records"


def shown(value: Any) -> str:
    """A value as JSON on one line, cut where it is long."""
    if isinstance(value, Decimal):
        text = str(value)
    elif isinstance(value, dict | list):
        text = f"{{…}} with {len(value)} keys" if isinstance(value, dict) else f"[…] with {len(value)} entries"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.match(key):
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def _number(text: str) -> Decimal:
    if len(text) > LONGEST_NUMBER or float(text) in (float("inf"), float("-inf")):
        raise NotExact(f"holds a number that nothing can measure: {text[:20]}…")
    return Decimal(text)


def _as_written(text: str) -> Decimal:
    value = _number(text)
    if value != Decimal(repr(float(text))):
        raise NotExact(f"holds {text}, a number that is written {float(text)!r}")
    return value


def _constant(text: str) -> NoReturn:
    raise NotExact(f"holds {text}, which is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotExact(f"has the key {shown(Counter(key for key, _ in pairs).most_common(1)[0][0])} twice")
    return found

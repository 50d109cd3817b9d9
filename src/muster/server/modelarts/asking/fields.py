"""Reads the JSON bodies of requests: each field has a type, and what is wrong with it is said by its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import Request

from muster.records.untrusted import parse_json
from muster.server.modelarts.asking.problems import BAD_FIELD, BAD_JSON, Refused

MOST_ITEMS = 1000  # of a list or an object
LONGEST = 64 << 10  # characters of a text


async def raw_body(request: Request) -> bytes:
    return await request.body()


def parsed(data: bytes) -> Fields:
    """The object of a body. Raises Refused for anything else, and for texts that no database takes."""
    try:
        value = parse_json(data or b"{}")
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:
        reason = "the body is not JSON, nested too deeply, or holds numbers or characters that are none"
        raise Refused(BAD_JSON, f"{reason}; send one object") from None
    if not isinstance(value, dict):
        raise Refused(BAD_JSON, 'the body is not an object; send one such as {"kind": "job"}')
    _check(value)
    return Fields(value, "")


def _check(value: Any) -> None:
    if isinstance(value, dict | list):
        if len(value) > MOST_ITEMS:
            raise Refused(BAD_FIELD, f"a list or an object of the body has {len(value)} entries; send {MOST_ITEMS} at most")
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            _check(inner)
    elif isinstance(value, str) and ("\x00" in value or len(value) > LONGEST):
        raise Refused(BAD_FIELD, f"a text of the body holds a NUL or more than {LONGEST} characters; shorten it")


class Fields:
    """An object of a body, and where it stands there. Values that are null count as not given."""

    def __init__(self, data: dict[str, Any], path: str) -> None:
        self.data = data
        self.path = path

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return self.data.get(name) not in (None, "", [], {})

    def object(self, name: str) -> Fields:
        """An inner object; an empty one where there is none."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value or {}, self.at(name))

    def objects(self, name: str) -> Iterator[Fields]:
        value = self.data.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "a list of objects")
        for index, inner in enumerate(value or []):
            if not isinstance(inner, dict):
                raise Refused(BAD_FIELD, f"`{self.at(name)}[{index}]` is not an object; write it as {{...}}")
            yield Fields(inner, f"{self.at(name)}[{index}]")

    def text(self, name: str, default: str = "") -> str:
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a text")
        return default if value is None else value

    def needed(self, name: str, hint: str) -> str:
        if not self.text(name):
            raise Refused(BAD_FIELD, f"`{self.at(name)}` is missing; {hint}")
        return self.text(name)

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number, which may be written as a text; None where there is none."""
        value = self.data.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
            raise self.wrong(name, f"a whole number from {least} to {most}")
        found: int | None = value
        return found

    def flag(self, name: str) -> bool:
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return bool(value)

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts; numbers and truth values are taken as they are written."""
        found = self.object(name)
        return {key: found.written(key) for key in found.data if found.data[key] is not None}

    def written(self, name: str) -> str:
        """A text, or a number or truth value as it is written."""
        value = self.data.get(name)
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        return self.text(name)

    def wrong(self, name: str, words: str) -> Refused:
        return Refused(BAD_FIELD, f"`{self.at(name)}` is not {words}; correct it")

"""Kinds of values that are texts: names, choices, lines and patterns."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds.item import Item, Wrong, nearest, scalar

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
MOST_NAME = 200  # bytes; a directory's name has 255, and the id of a run is longer than the name of its job
SCALAR = ["string", "number", "boolean"]  # the text counts, whatever YAML makes of it


class Kind:
    """A kind of value: `read` turns an Item into a value, or raises Wrong. One that is typed already is only checked."""

    words = "a value"
    types: str | list[str] = SCALAR  # that YAML may make of it
    pattern: str

    def read(self, item: Item) -> Any:
        raise NotImplementedError

    def put(self, outer: Item, inner: str, item: Item) -> Item | None:
        """The value with the entry `inner` set to `item`; None where this kind of value has no entries."""
        return None

    def opened(self, item: Item) -> Item:
        """The value as a mapping, where that may be written shorter."""
        return item

    def over(self, before: Item, item: Item) -> Item:
        """The value that an override makes of one that was given before."""
        return item

    def schema(self) -> dict[str, Any]:
        return {"type": self.types, "pattern": self.pattern}


class Text(Kind):
    words = "text"
    pattern = r"\S"

    def read(self, item: Item) -> str:
        text = scalar(item, self.words)
        if item.typed and not isinstance(item.value, str):
            raise Wrong("is not a text", "put it into quotes")
        return text


class Line(Text):
    """A text on one line."""

    words = "text on one line"
    pattern = r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$"

    def read(self, item: Item) -> str:
        return one_line(super().read(item))


def one_line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise Wrong("holds a line break or another control character", "write it on one line")
    return text


class Pattern(Text):
    """A regular expression whose one group is a number."""

    words = "a regular expression with one group, such as `fps: ([0-9.]+)`"

    def read(self, item: Item) -> str:
        text = super().read(item)
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise Wrong(f"is no regular expression: {error}", "put it into single quotes: YAML reads backslashes") from None
        if groups != 1:
            hint = "put `(` and `)` around the number; other groups are written `(?:...)`"
            count = f"{groups} groups" if groups else "no group"
            raise Wrong(f"has {count}; it takes {self.words}", hint)
        return text


class Name(Kind):
    words = "a name: letters, digits, `.`, `_` and `-`, at most 64 of them, the first a letter or digit"
    # Editors know \w as ASCII alone: names in other alphabets are checked by `read`.
    pattern = r"^[^\u0000-/:-@\[-`{-\u007f][^\u0000-,/:-@\[-^`{-\u007f]{0,63}$"

    def read(self, item: Item) -> str:
        name = scalar(item, self.words)
        if not re.fullmatch(r"[^\W_][\w.\-]{0,63}", name) or len(name.encode()) > MOST_NAME:
            clean = clean_name(name)
            hint = f"`{clean}` would do" if clean else "start with a letter, such as `train-1`"
            raise Wrong(f"{item.shown} cannot be the name of a directory; it takes {self.words}", hint)
        return name


def clean_name(text: str) -> str:
    """The nearest name that a directory can have, or nothing."""
    clean = re.sub(r"[^\w.\-]+", "-", text).strip("-._")[:64]
    return clean.encode()[:MOST_NAME].decode("utf-8", "ignore").rstrip("-._")


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words; `also` maps words that people try to the right one."""

    options: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:  # type: ignore[override]
        return "one of " + ", ".join(f"`{option}`" for option in self.options)

    def read(self, item: Item) -> str:
        text = scalar(item, self.words)
        if text not in self.options:
            meant = dict(self.also).get(text.lower()) or nearest(text, self.options)
            raise Wrong(f"{item.shown} is not known", f"did you mean `{meant}`?" if meant else "it takes " + self.words)
        return text

    def schema(self) -> dict[str, Any]:
        numbers = [float(option) for option in self.options if re.fullmatch(r"[0-9.]+", option)]  # as YAML reads them
        return {"enum": [*self.options, *numbers]}


class Flag(Kind):
    words = "`true` or `false`"

    def read(self, item: Item) -> bool:
        text = scalar(item, self.words)
        if item.typed and not isinstance(item.value, bool):
            raise Wrong("is neither true nor false", "write one of them, without quotes")
        if text not in ("true", "false"):
            raise Wrong(f"{item.shown} is not known", "it takes " + self.words)
        return text == "true"

    def schema(self) -> dict[str, Any]:
        return {"enum": [True, False, "true", "false"]}

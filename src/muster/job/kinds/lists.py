"""Kinds of values that are lists."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds.item import Item, Wrong, each, nearest, numbered, scalar, word
from muster.job.kinds.texts import ENV_NAME, SCALAR, Kind


class Command(Kind):
    words = "a string (run by bash) or a list of words (an argv)"

    def read(self, item: Item) -> str | tuple[str, ...]:
        if not isinstance(item.value, list):
            return scalar(item, self.words)
        words = tuple(each(numbered(item), lambda name, entry: word(entry)))
        if not words:
            raise Wrong("is an empty list; it takes " + self.words, "the first word is the program to run")
        if not words[0].strip():
            raise Wrong("starts with an empty word", "the first word is the program to run")
        return words

    def schema(self) -> dict[str, Any]:
        word = {"type": [*SCALAR, "null"]}  # `null` and `~` are words here; nothing at all is not
        words = {"type": "array", "prefixItems": [dict(word, pattern=r"\S")], "items": word, "minItems": 1}
        return {"anyOf": [{"type": SCALAR, "pattern": r"\S"}, words]}


class Names(Kind):
    words = "a list of names of environment variables"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            said = "a text" if isinstance(item.value, (str, int)) else item.shown  # it may be the secret itself
            raise Wrong(f"is {said}; it takes {self.words}", "such as `[WANDB_API_KEY]`")
        return tuple(dict.fromkeys(each(numbered(item), self._name)))

    def _name(self, name: str, item: Item) -> str:
        if not isinstance(item.value, str) or not re.fullmatch(ENV_NAME, item.text):
            hint = "only names stand here; values come from your environment or profile"
            raise Wrong("is not the name of an environment variable", hint)  # not shown: it may be the secret itself
        return item.text

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": ["string", "boolean"], "pattern": ENV_NAME}}  # `yes` is a name, too


@dataclass(frozen=True)
class Causes(Kind):
    """Exit codes and causes of failure."""

    causes: tuple[str, ...]

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a list of exit codes (1 to 255) and causes ({})".format(", ".join(f"`{cause}`" for cause in self.causes))

    def read(self, item: Item) -> tuple[int | str, ...]:
        if not isinstance(item.value, list) or not item.value:
            said = "an empty list" if isinstance(item.value, list) else item.shown
            raise Wrong(f"is {said}; it takes {self.words}", "such as `[137, lost]`")
        return tuple(each(numbered(item), self._cause))

    def _cause(self, name: str, item: Item) -> int | str:
        if isinstance(item.value, int) and 1 <= item.value <= 255:
            return item.value
        if isinstance(item.value, str) and item.value in self.causes:
            return item.value
        meant = nearest(item.text, self.causes)
        hint = f"did you mean `{meant}`?" if meant else "it takes " + self.words
        raise Wrong(f"{item.shown} is neither an exit code nor a cause", hint)

    def schema(self) -> dict[str, Any]:
        code = {"type": "integer", "minimum": 1, "maximum": 255}
        return {"type": "array", "minItems": 1, "items": {"anyOf": [code, {"enum": list(self.causes)}]}}

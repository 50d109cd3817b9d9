"""The kinds of values a job file can hold: how each is read, described and written as JSON Schema.

Own code instead of pydantic: importing and building its model took 110 ms of the 350 ms that a whole run may take, and
it keeps neither a line number nor the text of a number as it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Wrong(Exception):
    """A value that cannot be taken: what is wrong, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Item:
    """One value of the input with the text it was written as and the line it stands on."""

    value: Any  # None, bool, int, float, str, List[Item] or Dict[str, Item]
    text: str = ""
    line: Optional[int] = None

    @property
    def said(self) -> str:
        """What the value is, in words."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        return "`%s`" % (self.text if len(self.text) <= 60 else self.text[:57] + "...")


def _scalar(item: Item, wanted: str) -> str:
    if item.value is None or (isinstance(item.value, str) and not item.value.strip()):
        raise Wrong("is empty; it takes %s" % wanted, "give it a value, or remove the line")
    if isinstance(item.value, (dict, list)):
        raise Wrong("is %s; it takes %s" % (item.said, wanted))
    if "\0" in item.text:
        raise Wrong("holds a NUL character, which no process can be given")
    return item.text


class Kind:
    """A kind of value: `read` turns an Item into the value of the Job or raises Wrong."""

    words = "a value"

    def read(self, item: Item) -> Any:
        raise NotImplementedError

    def schema(self) -> Dict[str, Any]:
        raise NotImplementedError


class Text(Kind):
    words = "text"

    def read(self, item: Item) -> str:
        return _scalar(item, self.words)

    def schema(self) -> Dict[str, Any]:
        return {"type": "string", "minLength": 1}


class Name(Text):
    words = "a name: letters, digits, `.`, `_` and `-`, at most 64 characters"
    pattern = r"^\w[\w.\-]{0,63}$"

    def read(self, item: Item) -> str:
        name = _scalar(item, self.words)
        if not re.match(self.pattern, name) or name.startswith("_") or len(name.encode()) > 180 or name.endswith("\n"):
            clean = re.sub(r"[^\w.\-]+", "-", name).strip("-._")[:64]
            hint = "`%s` would do" % clean if clean else "start with a letter, such as `train-1`"
            raise Wrong("%s cannot be the name of a directory; it takes %s" % (item.said, self.words), hint)
        return name

    def schema(self) -> Dict[str, Any]:
        return {"type": "string", "pattern": self.pattern, "maxLength": 64}


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words; `also` maps words that people try to the right one."""

    options: Tuple[str, ...]
    also: Tuple[Tuple[str, str], ...] = ()

    @property
    def words(self) -> str:  # type: ignore[override]
        return "one of " + ", ".join("`%s`" % option for option in self.options)

    def read(self, item: Item) -> str:
        text = _scalar(item, self.words)
        if text not in self.options:
            meant = dict(self.also).get(text.lower()) or nearest(text, self.options)
            raise Wrong("%s is not known" % item.said, "did you mean `%s`?" % meant if meant else "it takes " + self.words)
        return text

    def schema(self) -> Dict[str, Any]:
        return {"enum": list(self.options)}


@dataclass(frozen=True)
class Count(Kind):
    least: int
    most: int
    why: str = ""

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a whole number from %d to %d" % (self.least, self.most)

    def read(self, item: Item) -> int:
        text = _scalar(item, self.words)
        if not isinstance(item.value, int) or isinstance(item.value, bool):
            raise Wrong("%s is not %s" % (item.said, self.words), "write it in digits, such as `%d`" % max(self.least, 2))
        if not self.least <= item.value <= self.most:
            size = "small" if item.value < self.least else "many"
            hint = self.why if size == "many" and self.why else "it takes " + self.words
            raise Wrong("`%s` is too %s" % (text[:40], size), hint)
        return int(item.value)

    def schema(self) -> Dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Duration(Kind):
    """A time such as `30s`, `10m`, `1h30m` or `2h`; seconds in the Job."""

    zero: bool = False
    words = "a time such as `30s`, `10m` or `2h`"
    pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$|^0$"

    def read(self, item: Item) -> float:
        text = _scalar(item, self.words).strip()
        if not re.match(self.pattern, text):
            number = re.match(r"[0-9.]+\Z", text)
            raise Wrong("%s is not %s" % (item.said, self.words), "did you mean `%ss`?" % text if number else "")
        seconds = sum(float(n) * UNITS[u] for n, u in re.findall(r"([0-9.]+)(ms|s|m|h|d)", text))
        if seconds <= 0 and not self.zero:
            raise Wrong("%s is no time at all" % item.said, "it takes " + self.words + ", more than nothing")
        if seconds > 10 * 365 * UNITS["d"]:
            raise Wrong("%s is more than ten years" % item.said, "leave the field out for no limit")
        return seconds

    def schema(self) -> Dict[str, Any]:
        return (
            {"type": "string", "pattern": self.pattern}
            if not self.zero
            else {"anyOf": [{"type": "string", "pattern": self.pattern}, {"const": 0}]}
        )


class Size(Kind):
    """An amount of memory such as `512M` or `96G` (powers of 1024); bytes in the Job."""

    words = "a size such as `512M` or `96G`"
    pattern = r"^[0-9]+(\.[0-9]+)?[KMGT](i?B)?$"

    def read(self, item: Item) -> int:
        text = _scalar(item, self.words).strip()
        if not re.match(self.pattern, text):
            number = re.match(r"[0-9.]+\Z", text)
            raise Wrong("%s is not %s" % (item.said, self.words), "did you mean `%sG`?" % text if number else "")
        number_text = re.match(r"[0-9.]+", text)
        assert number_text
        size = int(float(number_text.group()) * 1024 ** ("KMGT".index(text[number_text.end()]) + 1))
        if size < 1 << 20:
            raise Wrong("%s is less than 1M, which no process can start in" % item.said)
        return size

    def schema(self) -> Dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


class Command(Kind):
    words = "a string (run by bash) or a list of words (an argv)"

    def read(self, item: Item) -> Union[str, Tuple[str, ...]]:
        if isinstance(item.value, list):
            if not item.value:
                raise Wrong("is an empty list; it takes " + self.words)
            words = tuple(_word(word) for word in item.value)
            if not words[0]:
                raise Wrong("starts with an empty word", "the first word is the program to run")
            return words
        return _scalar(item, self.words)

    def schema(self) -> Dict[str, Any]:
        word = {"type": ["string", "number", "boolean"]}
        return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": word, "minItems": 1}]}


def _word(item: Item) -> str:
    if item.value is None and not item.text:
        return ""
    if isinstance(item.value, (dict, list)):
        raise Wrong("holds %s where a word belongs" % item.said)
    if "\0" in item.text:
        raise Wrong("holds a NUL character, which no process can be given")
    return item.text


@dataclass(frozen=True)
class Pairs(Kind):
    """A mapping of names to texts, each text exactly as it was written."""

    name: str  # what the names are
    pattern: str
    sample: str = "EPOCHS"

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a mapping of %s to values" % self.name

    def read(self, item: Item) -> Dict[str, str]:
        if not isinstance(item.value, dict):
            raise Wrong("is %s; it takes %s" % (item.said, self.words), "such as `{%s: 90}`" % self.sample)
        found = {}
        for name, value in item.value.items():
            if not re.match(self.pattern, name):
                raise Wrong("has the name `%s`, which cannot be used as %s" % (name[:60], self.name[:-1]))
            if isinstance(value.value, (dict, list)):
                raise Wrong("`%s` is %s; it takes a plain value" % (name, value.said), "quote it to pass it as text")
            if value.value is None and not value.text:
                raise Wrong("`%s` is empty" % name, 'give it a value, or `""` for an empty text')
            found[name] = _word(value)
        return found

    def schema(self) -> Dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": self.pattern.replace(r"\Z", "$")},
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        }


class Names(Kind):
    words = "a list of names of environment variables"

    def read(self, item: Item) -> Tuple[str, ...]:
        if not isinstance(item.value, list):
            raise Wrong("is %s; it takes %s" % (item.said, self.words), "such as `[WANDB_API_KEY]`")
        for entry in item.value:
            if not isinstance(entry.value, str) or not ENV_NAME.match(entry.value):
                raise Wrong(
                    "%s is not the name of an environment variable" % entry.said,
                    "only names stand here; values come from your environment or profile",
                )
        return tuple(dict.fromkeys(entry.value for entry in item.value))

    def schema(self) -> Dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}


@dataclass(frozen=True)
class Causes(Kind):
    """Exit codes and causes of failure."""

    causes: Tuple[str, ...]

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a list of exit codes (1 to 255) and causes (%s)" % ", ".join("`%s`" % cause for cause in self.causes)

    def read(self, item: Item) -> Tuple[Union[int, str], ...]:
        if not isinstance(item.value, list) or not item.value:
            raise Wrong(
                "is %s; it takes %s" % ("empty" if item.value == [] else item.said, self.words), "such as `[137, lost]`"
            )
        for entry in item.value:
            if isinstance(entry.value, int) and not isinstance(entry.value, bool) and 1 <= entry.value <= 255:
                continue
            if entry.value not in self.causes:
                meant = nearest(entry.text, self.causes)
                raise Wrong(
                    "%s is neither an exit code nor a cause" % entry.said,
                    "did you mean `%s`?" % meant if meant else "it takes " + self.words,
                )
        return tuple(entry.value for entry in item.value)

    def schema(self) -> Dict[str, Any]:
        code = {"type": "integer", "minimum": 1, "maximum": 255}
        return {"type": "array", "minItems": 1, "items": {"anyOf": [code, {"enum": list(self.causes)}]}}


def nearest(word: str, known: Union[List[str], Tuple[str, ...]]) -> Optional[str]:
    """The known word that somebody who typed `word` most likely meant."""
    import difflib  # only on the way to an error

    close = difflib.get_close_matches(word[:64].lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None

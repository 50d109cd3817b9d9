"""The kinds of values a job file can hold: how each is read, described and written as JSON Schema.

Own code instead of pydantic: importing and building its model took 110 ms of the 350 ms that a whole run may take, and
it keeps neither a line number nor the text of a number as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
MOST_TEXT = 120_000  # bytes; Linux gives a process no single argument or variable of more than 128 KiB
MOST_NAME = 200  # bytes; a directory's name has 255, and the id of a run is longer than the name of its job
SCALAR = ["string", "number", "boolean"]  # the text counts, whatever YAML makes of it


class Wrong(Exception):
    """A value that cannot be taken: what is wrong, what to do about it, and where inside the value it is."""

    def __init__(self, message: str, hint: str, name: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.name = name
        self.line = line

    @property
    def each(self) -> list[Wrong]:
        return [self]


class Several(Wrong):
    """All that is wrong with the entries of a list or a mapping."""

    def __init__(self, wrongs: list[Wrong]) -> None:
        super().__init__(wrongs[0].message, wrongs[0].hint)
        self.wrongs = wrongs

    @property
    def each(self) -> list[Wrong]:
        return self.wrongs


# A name or a password in a URL. A variable in place of the password is none, and a bucket's name holds neither `:` nor `@`.
PASSWORD = re.compile(r"\b(?:obs|s3):(?://[^/\s`'\"]*[:@]|/?[^/\s`'\"]*:[^\s`'\"]*@)|://[^/\s@:`'\"]*:(?![$%{<])[^/\s@`'\"]+@")
_OF_STORES = re.compile(r"\b((?:obs|s3):/*)(?=[^/\s`]*[:@])[^\s`]*")
_OF_OTHERS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*:/+)(?=[^/\s`]*[:@])[^\s`]*@")


def without_password(text: str) -> str:
    """A text as it may be shown: where URLs hold a name or a password, stars stand."""
    return _OF_OTHERS.sub(r"\1***@", _OF_STORES.sub(r"\1***", text))


@dataclass(frozen=True)
class Item:
    """One value of the input with the text it was written as and the line it stands on."""

    value: Any  # None, int, str, List[Item] or Dict[str, Item]
    text: str = ""
    line: int | None = None

    @property
    def said(self) -> str:
        """What the value is, in words."""
        if self.value is None:
            return "empty"
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        text = without_password(self.text)
        return f"`{text if len(text) <= 60 else text[:57] + '...'}`"


def scalar(item: Item, wanted: str) -> str:
    if item.value is None or (isinstance(item.value, str) and not item.value.strip()):
        raise Wrong(f"is empty; it takes {wanted}", "give it a value, or remove the line")
    if isinstance(item.value, (dict, list)):
        raise Wrong(f"is {item.said}; it takes {wanted}", "write a single value")
    return given_text(item.text)


def given_text(text: str) -> str:
    """A text, if a process can be given it."""
    if "\0" in text:
        raise Wrong("holds a NUL character, which no process can be given", "remove it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Wrong("is not UTF-8 text", "write it in UTF-8") from None
    if size > MOST_TEXT:
        message = f"is {size} bytes long, and a process can be given {MOST_TEXT} in one piece"
        raise Wrong(message, "put it into a file beside the program")
    return text


def word(item: Item) -> str:
    """A plain value inside a list or a mapping; only a text that says so is empty."""
    if item.value is None and not item.text:
        raise Wrong("is empty", 'give it a value, or `""` for an empty text')
    if isinstance(item.value, (dict, list)):
        raise Wrong(f"is {item.said}; it takes a plain value", "quote it to pass it as text")
    return given_text(item.text)


def each(entries: Iterable[tuple[str, Item]], read: Callable[[str, Item], Any]) -> list[Any]:
    """Reads all entries, and raises everything that is wrong with them together."""
    found, wrongs = [], []
    for name, item in entries:
        try:
            found.append(read(name, item))
        except Wrong as wrong:
            wrongs.append(Wrong(wrong.message, wrong.hint, name, item.line))
    if wrongs:
        raise Several(wrongs)
    return found


def numbered(item: Item) -> Iterable[tuple[str, Item]]:
    return ((f"[{index}]", entry) for index, entry in enumerate(item.value))


class Kind:
    """A kind of value: `read` turns an Item into the value of the Job or raises Wrong."""

    words = "a value"

    def read(self, item: Item) -> Any:
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        raise NotImplementedError


class Text(Kind):
    words = "text"

    def read(self, item: Item) -> str:
        return scalar(item, self.words)

    def schema(self) -> dict[str, Any]:
        return {"type": SCALAR, "pattern": r"\S"}


class Name(Kind):
    words = "a name: letters, digits, `.`, `_` and `-`, at most 64 of them, the first a letter or digit"
    # Editors know \w as ASCII alone: of other alphabets the schema leaves the judgement to `read`.
    pattern = r"^[^\u0000-/:-@\[-`{-\u007f][^\u0000-,/:-@\[-^`{-\u007f]{0,63}$"

    def read(self, item: Item) -> str:
        name = scalar(item, self.words)
        if not re.fullmatch(r"[^\W_][\w.\-]{0,63}", name) or len(name.encode()) > MOST_NAME:
            clean = clean_name(name)
            hint = f"`{clean}` would do" if clean else "start with a letter, such as `train-1`"
            raise Wrong(f"{item.said} cannot be the name of a directory; it takes {self.words}", hint)
        return name

    def schema(self) -> dict[str, Any]:
        return {"type": SCALAR, "pattern": self.pattern}


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
            raise Wrong(f"{item.said} is not known", f"did you mean `{meant}`?" if meant else "it takes " + self.words)
        return text

    def schema(self) -> dict[str, Any]:
        numbers = [float(option) for option in self.options if re.fullmatch(r"[0-9.]+", option)]  # as YAML reads them
        return {"enum": [*self.options, *numbers]}


@dataclass(frozen=True)
class Count(Kind):
    least: int
    most: int
    why: str = ""

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"a whole number from {self.least} to {self.most}"

    def read(self, item: Item) -> int:
        text = scalar(item, self.words)
        if isinstance(item.value, int) and self.least <= item.value <= self.most:
            return item.value
        if isinstance(item.value, int):
            small = item.value < self.least
            hint = self.why if self.why and not small else "it takes " + self.words
            raise Wrong("{} is too {}".format(item.said, "small" if small else "many"), hint)
        if re.fullmatch(r"[0-9]{1,9}", text):
            raise Wrong(f"{item.said} is not {self.words}", "write it without quotes and leading zeros")
        raise Wrong(f"{item.said} is not {self.words}", f"write it in plain digits, such as `{max(self.least, 2)}`")

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Flag(Kind):
    words = "`true` or `false`"

    def read(self, item: Item) -> bool:
        text = scalar(item, self.words)
        if text not in ("true", "false"):
            raise Wrong(f"{item.said} is not known", "it takes " + self.words)
        return text == "true"

    def schema(self) -> dict[str, Any]:
        return {"enum": [True, False, "true", "false"]}


UNIT_HINT = "write a number and its unit without a space"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Duration(Kind):
    """A time such as `30s`, `10m`, `1h30m` or `2h`; seconds in the Job."""

    zero: bool = False
    words = "a time such as `30s`, `10m` or `2h`"

    @property
    def pattern(self) -> str:
        times = r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
        return "^0$|^" + times if self.zero else r"^(?=.*[1-9])" + times

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        if not re.fullmatch(self.pattern, text):
            if re.fullmatch(Duration(zero=True).pattern, text):
                raise Wrong(f"{item.said} is no time at all", "it takes " + self.words)
            meant = self._meant(text)
            raise Wrong(f"{item.said} is not {self.words}", f"did you mean `{meant}`?" if meant else UNIT_HINT)
        seconds = sum(float(n) * UNITS[u] for n, u in re.findall(r"([0-9.]+)(ms|s|m|h|d)", text))
        if seconds > 10 * 365 * UNITS["d"]:
            raise Wrong(f"{item.said} is more than ten years", "leave the field out for no limit")
        return seconds

    def _meant(self, text: str) -> str:
        """What somebody who wrote `90`, `10 min` or `2H` most likely meant."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhd]?)[a-z]*", text.strip().lower())
        return found.group(1) + (found.group(2) or "s") if found else ""

    def schema(self) -> dict[str, Any]:
        texts = {"type": "string", "pattern": self.pattern}
        return {"anyOf": [texts, {"const": 0}]} if self.zero else texts


class Size(Kind):
    """An amount of memory such as `512M` or `96G` (powers of 1024); bytes in the Job."""

    words = "a size such as `512M` or `96G`"
    pattern = r"^[0-9]+(\.[0-9]+)?[KMGT](i?B|i)?$"

    def read(self, item: Item) -> int:
        text = scalar(item, self.words)
        found = re.match(r"([0-9.]+)([KMGT])", text)
        if not found or not re.fullmatch(self.pattern, text):
            meant = self._meant(text)
            raise Wrong(f"{item.said} is not {self.words}", f"did you mean `{meant}`?" if meant else UNIT_HINT)
        size = float(found.group(1)) * 1024 ** ("KMGT".index(found.group(2)) + 1)
        if size < 1 << 20:
            raise Wrong(f"{item.said} is less than `1M`, which no process can start in", "it takes " + self.words)
        if size > 1 << 60:
            raise Wrong(f"{item.said} is more than any machine has", "leave the field out for all of the machine")
        return int(size)

    def _meant(self, text: str) -> str:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)I?B?", text.strip().upper())
        return found.group(1) + (found.group(2) or "G") if found else ""

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


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


@dataclass(frozen=True)
class Pairs(Kind):
    """A mapping of names to texts, each text exactly as it was written."""

    name: str  # what the names are
    pattern: str
    names: str  # which names there can be, in words
    sample: str = "{EPOCHS: 90}"

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"a mapping of {self.name}s to values"

    def read(self, item: Item) -> dict[str, str]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.said}; it takes {self.words}", f"such as `{self.sample}`")
        return dict(each(item.value.items(), self._pair))

    def _pair(self, name: str, item: Item) -> tuple[str, str]:
        if not re.fullmatch(self.pattern, name):
            raise Wrong(f"cannot be the name of a {self.name}", "it takes " + self.names)
        text = word(item)
        given_text(name + "=" + text)
        return name, text

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": self.pattern},
            "additionalProperties": {"type": [*SCALAR, "null"]},  # `null` and `~` are texts here; nothing at all is not
        }


class Names(Kind):
    words = "a list of names of environment variables"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            said = "a text" if isinstance(item.value, (str, int)) else item.said  # it may be the secret itself
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
            said = "an empty list" if isinstance(item.value, list) else item.said
            raise Wrong(f"is {said}; it takes {self.words}", "such as `[137, lost]`")
        return tuple(each(numbered(item), self._cause))

    def _cause(self, name: str, item: Item) -> int | str:
        if isinstance(item.value, int) and 1 <= item.value <= 255:
            return item.value
        if isinstance(item.value, str) and item.value in self.causes:
            return item.value
        meant = nearest(item.text, self.causes)
        hint = f"did you mean `{meant}`?" if meant else "it takes " + self.words
        raise Wrong(f"{item.said} is neither an exit code nor a cause", hint)

    def schema(self) -> dict[str, Any]:
        code = {"type": "integer", "minimum": 1, "maximum": 255}
        return {"type": "array", "minItems": 1, "items": {"anyOf": [code, {"enum": list(self.causes)}]}}


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str | None:
    """The known word that somebody who typed `word` most likely meant."""
    import difflib  # only on the way to an error

    close = difflib.get_close_matches(word[:64].lower(), known, n=1, cutoff=0.65)
    return close[0] if close else None

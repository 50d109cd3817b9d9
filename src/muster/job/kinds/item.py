"""One value of the input, as written or as Python data, and the errors of values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from muster.dataclass import dataclass, replace

MOST_TEXT = 120_000  # bytes; Linux gives a process no single argument or variable of more than 128 KiB


class Wrong(Exception):
    """An invalid value: what is wrong, what to do about it, and the name of the entry inside the value."""

    def __init__(self, message: str, hint: str, name: str = "", line: int | None = None, source: str = "") -> None:
        super().__init__(message)
        self.entries: list[Wrong] = []  # all that is wrong with the entries of a list or a mapping
        self.message = message
        self.hint = hint
        self.name = name
        self.line = line
        self.source = source

    @property
    def each(self) -> list[Wrong]:
        return self.entries or [self]

    def inside(self, name: str, item: Item) -> Wrong:
        """The same, seen from a mapping or list of which `item` is the entry called `name`."""
        inner = f"{name}.{self.name}" if self.name and not self.name.startswith("[") else name
        return Wrong(self.message, self.hint, inner, self.line or item.line, self.source or item.source)


# A name or a password in a URL. A variable in place of the password is none, and a bucket's name holds neither `:` nor `@`.
PASSWORD = r"\b(?:obs|s3):(?://[^/\s`'\"]*[:@]|/?[^/\s`'\"]*:[^\s`'\"]*@)|://[^/\s@:`'\"]*:(?![$%{<])[^/\s@`'\"]+@"
_OF_STORES = r"\b((?:obs|s3):/*)(?=[^/\s`]*[:@])[^\s`]*"
_OF_OTHERS = r"\b([A-Za-z][A-Za-z0-9+.-]*:/+)(?=[^/\s`]*[:@])[^\s`]*@"


def without_password(text: str) -> str:
    """A text with stars in place of names and passwords in URLs."""
    return re.sub(_OF_OTHERS, r"\1***@", re.sub(_OF_STORES, r"\1***", text))


@dataclass(frozen=True)
class Item:
    """One value of the input with the text it was written as and where it stands."""

    value: Any  # None, int, str, list[Item] or dict[str, Item]; any plain value where it is typed
    text: str = ""
    line: int | None = None
    source: str = ""  # the override that it comes from; empty for the file
    typed: bool = False  # a value of Python or TOML: text is text, and a number counts seconds, bytes or the whole

    @property
    def shown(self) -> str:
        """The value as an error shows it."""
        if self.value is None:
            return "empty"
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return "a list"
        text = without_password(self.text)
        return f"`{text if len(text) <= 60 else text[:57] + '...'}`"

    @property
    def number(self) -> float | None:
        """The number that a typed value is."""
        is_number = self.typed and isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        return self.value if is_number else None

    def with_entry(self, path: list[str], item: Item) -> Item:
        """This mapping with one of its entries set, however deep that lies."""
        first, *rest = path
        fields = self.value if isinstance(self.value, dict) else {}
        entry = fields.get(first, Item({})).with_entry(rest, item) if rest else item
        return replace(self, value={**fields, first: entry})


def typed(value: Any) -> Item:
    """The Item of a value that needs no parsing: of a Job, or of TOML. Empty fields of a dataclass are left out."""
    if hasattr(value, "__dataclass_fields__"):
        value = {name: entry for name, entry in vars(value).items() if entry not in ("", None, ())}
    if isinstance(value, Mapping):
        return Item({str(name): typed(entry) for name, entry in value.items()})
    if isinstance(value, (list, tuple)):
        return Item([typed(entry) for entry in value])
    if value is None:
        return Item(None)
    return Item(value, text_of(value), typed=True)


def text_of(value: Any) -> str:
    """A plain value as a job file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return hex(value) if isinstance(value, int) and abs(value) >= 10**100 else str(value)


def scalar(item: Item, wanted: str) -> str:
    if item.value is None or (isinstance(item.value, str) and not item.value.strip()):
        raise Wrong(f"is empty; it takes {wanted}", "give it a value, or remove the line")
    if isinstance(item.value, (dict, list)):
        raise Wrong(f"is {item.shown}; it takes {wanted}", "write a single value")
    return given_text(item.text)


def given_text(text: str) -> str:
    """Returns a text. Raises Wrong if it cannot be an argument or a variable of a process."""
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
        raise Wrong(f"is {item.shown}; it takes a plain value", "quote it to pass it as text")
    return given_text(item.text)


def each(entries: Iterable[tuple[str, Item]], read: Callable[[str, Item], Any]) -> list[Any]:
    """Reads all entries. Raises Wrong with everything that is wrong with them."""
    found, wrongs = [], []
    for name, item in entries:
        try:
            found.append(read(name, item))
        except Wrong as wrong:
            wrongs += [one.inside(name, item) for one in wrong.each]
    if wrongs:
        several = Wrong(wrongs[0].message, wrongs[0].hint)
        several.entries = wrongs
        raise several
    return found


def numbered(item: Item) -> Iterable[tuple[str, Item]]:
    return ((f"[{index}]", entry) for index, entry in enumerate(item.value))


def nearest(word: str, known: list[str] | tuple[str, ...]) -> str | None:
    """The known word that `word` was most likely meant to be."""
    import difflib  # only on the way to an error

    close = difflib.get_close_matches(word[:64].lower(), known, n=1, cutoff=0.65)
    return close[0] if close else None

"""Parses YAML into Items: values with the text they were written as and their lines. It does not interpret them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.dataclass import dataclass, replace
from muster.job.kinds import Item, text_of, without_password

MOST_BYTES = 1 << 20
MOST_ITEMS = 100_000
MOST_LEVELS = 30
YAML = "tag:yaml.org,2002:"
TAGS = {
    "scalar": "null bool int float str timestamp value merge".split(),
    "sequence": ["seq"],
    "mapping": ["map"],
}
UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")  # YAML allows none of them


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a job: where, what, and what to do."""

    file: str  # nothing for what stands in none, such as an option
    line: int | None
    field: str
    message: str
    hint: str = ""

    def without_passwords(self) -> Problem:
        """The same as it may be shown: what is wrong may be that a password stands there."""
        file, message, hint = map(without_password, (self.file, self.message, self.hint))
        return replace(self, file=file, message=message, hint=hint)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        said = self.message
        if self.field and said.startswith("`"):  # the message starts with the value: name and value read as written
            said = f"`{self.field}: {said[1:]}"
        elif self.field:
            said = f"`{self.field}` {said}"
        sentence = f"{where}: {said}" if where else said
        return _printable(f"{sentence}; {self.hint}" if self.hint else sentence)


def short(name: str, most: int = 80) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _printable(text: str) -> str:
    """One line that a terminal shows as it is, whatever a file holds."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


class Finding(NamedTuple):
    """Something wrong with a field of a job, wherever that stands: `nodes`, or `env.NAME` for an entry."""

    field: str
    message: str
    hint: str


class JobError(Exception):
    """A job that is refused, with everything that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = [problem.without_passwords() for problem in problems]
        super().__init__("\n".join(map(str, self.problems)))


def decode(data: bytes, file: str) -> str:
    """The text of a job file. Raises JobError for what is no text, or too long."""
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES >> 20} MB, and no job file is"
        raise JobError([Problem(file, None, "", message, "name the job file; data belongs into files beside the program")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobError([Problem(file, line, "", "is not UTF-8 text", "save the file as UTF-8")]) from None


def parse(text: str, file: str) -> tuple[Item, list[Problem]]:
    """The Items of a YAML text, and the problems that do not keep it from being read on (duplicate keys, tags)."""
    import yaml

    _check_characters(text, file)
    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = None
    try:
        _check_depth(text, file, loader_class)
        loader = loader_class(text)
        node = loader.get_single_node()
        if node is None:
            return Item(None), []
        reader = _Reader(file)
        return reader.item(node), list(dict.fromkeys(reader.problems))
    except yaml.YAMLError as error:
        raise JobError([_syntax_problem(error, text, file)]) from None
    finally:
        if loader is not None:
            loader.dispose()


def from_python(value: Any, depth: int = 0) -> Item:
    """Items of plain Python data, as the Python API takes it."""
    if depth > MOST_LEVELS:
        return Item("...", "...")
    if isinstance(value, Mapping):
        return Item({str(key): from_python(entry, depth + 1) for key, entry in value.items()})
    if isinstance(value, list | tuple):
        return Item([from_python(entry, depth + 1) for entry in value])
    if value is None:
        return Item(None)
    text = text_of(value)
    return Item(value if isinstance(value, int) and not isinstance(value, bool) else text, text)


def _check_characters(text: str, file: str) -> None:
    found = UNREADABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        message = f"holds the character U+{ord(found.group()):04X}, which YAML does not allow"
        raise JobError([Problem(file, line, "", message, "remove it; is this a text file, saved as UTF-8?")])


def _check_depth(text: str, file: str, loader_class: Any) -> None:
    """Raises JobError for deep nesting, before the recursive composer meets it."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
            if depth > MOST_LEVELS:
                line = event.start_mark.line + 1 if event.start_mark else None
                message = f"is nested more than {MOST_LEVELS} levels deep"
                raise JobError([Problem(file, line, "", message, "the fields of a job have two levels at most")])
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1


def _syntax_problem(error: Any, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    begun = getattr(error, "context_mark", None)
    line = mark.line + 1 if mark else None
    said = [part for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part]
    message = ", ".join(said) or str(error).split("\n")[0]
    if "single document" in message:
        return Problem(file, line, "", "holds more than one YAML document", "a job file has one: remove the `---` or split it")
    if begun and line and begun.line + 1 < line:
        message += f" (it begins on line {begun.line + 1})"
    lines = text.splitlines()
    at = lines[mark.line] if mark and mark.line < len(lines) else ""
    return Problem(file, line, "", "is not YAML: " + message, _syntax_hint(message, at))


def _syntax_hint(message: str, line: str) -> str:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in message:
        return "quote a value that holds `: `, and indent fields alike"
    if "alias" in message or "cannot start any token" in message:
        return "quote a value that starts with a special character"
    if "flow" in message or "quoted" in message:
        return "is a bracket or a quote left open?"
    return "check the indentation, quotes and colons there"


class _Reader:
    """Turns YAML nodes into Items. Aliases and merge keys are written out, as far as there is room for them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.items = MOST_ITEMS
        self.letters = MOST_BYTES

    def item(self, node: Any, depth: int = 0, path: str = "") -> Item:
        line = node.start_mark.line + 1 if node.start_mark else None
        self._spend(node, depth, line)
        kind = node.id
        if node.tag.removeprefix(YAML) not in TAGS[kind]:
            message = f"has the tag `{node.tag.replace(YAML, '!!')}`, which Muster does not know"
            self.problems.append(Problem(self.file, line, path, message, "remove the tag"))
        if kind == "mapping":
            return Item(self._mapping(node, depth, path), line=line)
        if kind == "sequence":
            return Item([self.item(entry, depth + 1, path) for entry in node.value], line=line)
        return Item(_value(node), str(node.value), line)

    def _spend(self, node: Any, depth: int, line: int | None) -> None:
        self.items -= 1
        self.letters -= len(node.value) if isinstance(node.value, str) else 0
        if self.items >= 0 and self.letters >= 0 and depth <= MOST_LEVELS:
            return
        message = f"holds more than {MOST_ITEMS:,} values, those that aliases repeat included"
        if depth > MOST_LEVELS:
            message = f"is nested more than {MOST_LEVELS} levels deep by its aliases"
        raise JobError([Problem(self.file, line, "", message, "write out the few values that a job needs")])

    def _mapping(self, node: Any, depth: int, path: str) -> dict[str, Item]:
        own: dict[str, Item] = {}
        merged: dict[str, Item] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str) or not key.value.strip():
                kind = "an empty key" if isinstance(key.value, str) else "a list or a mapping as a key"
                self.problems.append(Problem(self.file, line, path, f"has {kind}", "keys are plain words"))
                continue
            name = f"{path}.{key.value}" if path else key.value
            if key.value in lines:
                message = f"stands twice, on line {lines[key.value]} too"
                self.problems.append(Problem(self.file, line, name, message, "remove one of them"))
            lines[key.value] = line
            item = self.item(value, depth + 1, name)
            if key.tag == YAML + "merge":
                merged = {**self._merge(item, path), **merged}
            else:
                own[key.value] = Item(item.value, item.text, line)
        return {**merged, **own}

    def _merge(self, item: Item, path: str) -> dict[str, Item]:
        """The fields that `<<` merges: of one mapping, or of several, of which the first counts most."""
        merged: dict[str, Item] = {}
        for source in item.value if isinstance(item.value, list) else [item]:
            if isinstance(source.value, dict):
                merged = {**source.value, **merged}
            else:
                message = f"merges {source.shown} with `<<`"
                self.problems.append(Problem(self.file, source.line, path, message, "it takes an alias of a mapping"))
        return merged


def _value(node: Any) -> Any:
    """None, a whole number written in plain digits, or else the text; kinds of values need no other types."""
    text = str(node.value)
    if node.tag == YAML + "null":
        return None
    if node.tag == YAML + "int" and re.fullmatch(r"[-+]?(0|[1-9][0-9]*)", text):
        return int(text[:1000])
    return text

"""YAML text as Items: values with the text they were written as and their lines. No meaning yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.job.kinds import Item

if TYPE_CHECKING:
    from yaml import Node

MOST_BYTES = 1 << 20
MOST_ITEMS = 100_000
MOST_LEVELS = 30


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a job: where, what, and what to do."""

    file: str
    line: int | None
    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        said = self.message
        if self.field and said.startswith("`"):  # the message starts with the value: name and value read as written
            said = f"`{self.field}: {said[1:]}"
        elif self.field:
            said = f"`{self.field}` {said}"
        said = f"{where}: {said}"
        return f"{said}; {self.hint}" if self.hint else said


class JobError(Exception):
    """A job that cannot be taken, with everything that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def decode(data: bytes, file: str) -> str:
    """The text of a job file, or why it cannot be one."""
    if len(data) > MOST_BYTES:
        message = f"is {len(data) / (1 << 20):.1f} MB; a job file has {MOST_BYTES >> 20} MB at most"
        raise JobError([Problem(file, None, "", message, "is this really a job file?")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise JobError([Problem(file, line, "", "is not UTF-8 text", "save the file as UTF-8")]) from None


def parse(text: str, file: str) -> tuple[Item, list[Problem]]:
    """The Items of a YAML text, and the problems that do not keep it from being read on (duplicate keys)."""
    import yaml

    loader_class: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = None
    try:
        _refuse_depth(text, file, loader_class)
        loader = loader_class(text)
        node = loader.get_single_node()
        if node is None:
            return Item(None), []
        reader = _Reader(loader, file)
        return reader.item(node, 0), reader.problems
    except yaml.YAMLError as error:
        raise JobError([_syntax_problem(error, text, file)]) from None
    finally:
        if loader is not None:
            loader.dispose()


def from_python(value: Any, depth: int = 0) -> Item:
    """Items of plain Python data, as the Python API takes it."""
    if depth > MOST_LEVELS:
        return Item("...", "...")
    if isinstance(value, dict):
        return Item({str(key): from_python(entry, depth + 1) for key, entry in value.items()})
    if isinstance(value, list | tuple):
        return Item([from_python(entry, depth + 1) for entry in value])
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return Item(value, text)


def _refuse_depth(text: str, file: str, loader_class: Any) -> None:
    """Stops at deep nesting before the recursive composer meets it."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
            if depth > MOST_LEVELS:
                line = event.start_mark.line + 1 if event.start_mark else None
                raise JobError([Problem(file, line, "", f"is nested more than {MOST_LEVELS} levels deep")])
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1


def _syntax_problem(error: Any, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = [part for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part]
    message = "is not YAML: " + (", ".join(said) or str(error).split("\n")[0])
    lines = text.splitlines()
    tab = mark is not None and mark.line < len(lines) and "\t" in lines[mark.line]
    hint = "indent with spaces, not with tabs" if tab else ""
    return Problem(file, mark.line + 1 if mark else None, "", message, hint)


class _Reader:
    def __init__(self, loader: Any, file: str) -> None:
        self.loader = loader
        self.file = file
        self.problems: list[Problem] = []
        self.left = MOST_ITEMS

    def item(self, node: Node, depth: int) -> Item:
        import yaml

        line = node.start_mark.line + 1 if node.start_mark else None
        self.left -= 1
        if self.left < 0 or depth > MOST_LEVELS:
            raise JobError([Problem(self.file, line, "", "grows too large through its aliases", "write the values out")])
        if isinstance(node, yaml.MappingNode):
            return Item(self._mapping(node, depth), line=line)
        if isinstance(node, yaml.SequenceNode):
            return Item([self.item(entry, depth + 1) for entry in node.value], line=line)
        return Item(self._scalar(node), str(node.value), line)

    def _scalar(self, node: Node) -> Any:
        try:
            value = self.loader.construct_object(node)
        except ValueError:  # such as the date 2026-99-99: the text is what counts
            return str(node.value)
        return value if value is None or isinstance(value, bool | int | float | str) else str(node.value)

    def _mapping(self, node: Node, depth: int) -> dict[str, Item]:
        import yaml

        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(self.file, line, "", "has a list or mapping as a key", "keys are plain words"))
            elif key.value in seen and key.value != "<<":
                message = f"stands twice, on line {seen[key.value]} too"
                self.problems.append(Problem(self.file, line, key.value, message, "remove one of them"))
            else:
                seen[key.value] = line
        self.loader.flatten_mapping(node)  # the merge key, `<<`
        return {str(key.value): self.item(value, depth + 1) for key, value in node.value if isinstance(key, yaml.ScalarNode)}

"""Kinds of values that are mappings: free names, the declared fields of a dataclass, or the options of an engine."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

from muster.dataclass import Field, dataclass, field, fields
from muster.job.kinds.item import Item, Wrong, each, given_text, nearest, word
from muster.job.kinds.texts import SCALAR, Kind


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
            raise Wrong(f"is {item.shown}; it takes {self.words}", f"such as `{self.sample}`")
        return dict(each(item.value.items(), self._pair))

    def _pair(self, name: str, item: Item) -> tuple[str, str]:
        if not re.fullmatch(self.pattern, name):
            raise Wrong(f"cannot be the name of a {self.name}", "it takes " + self.names)
        text = word(item)
        given_text(name + "=" + text)
        return name, text

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return outer.with_entry([inner], item)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": self.pattern},
            "additionalProperties": {"type": [*SCALAR, "null"]},  # `null` and `~` are texts here; nothing at all is not
        }


@dataclass(frozen=True)
class Table(Kind):
    """A mapping of names, known or free, to values of one kind."""

    kind: Kind
    names: tuple[str, ...] = ()  # the known ones; any where there are none
    sample: str = ""
    pattern: str = r"^[A-Za-z_][\w.\-/]*$"

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"a mapping such as `{self.sample}`"

    def read(self, item: Item) -> dict[str, Any]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.shown}; it takes {self.words}", "write a name and a value")
        return dict(each(item.value.items(), self._pair))

    def _pair(self, name: str, item: Item) -> tuple[str, Any]:
        if self.names and name not in self.names:
            meant, known = nearest(name, self.names), ", ".join(f"`{known}`" for known in self.names)
            raise Wrong("is not known", f"did you mean `{meant}`?" if meant else f"there are {known}")
        if not re.fullmatch(self.pattern, name):
            raise Wrong("cannot be a name", "it takes letters, digits, `_`, `.`, `-` and `/`, a letter in front")
        return name, self.kind.read(item)

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return outer.with_entry(inner.split("."), item)

    def schema(self) -> dict[str, Any]:
        names: dict[str, Any] = {"enum": list(self.names)} if self.names else {"pattern": self.pattern}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.kind.schema()}


def declared(kind: Kind, default: Any, about: str, example: str = "", shown: str = "") -> Any:
    """A field of a dataclass that users set: its kind, default, one sentence about it, an example, the default in words."""
    metadata = {"kind": kind, "about": about, "example": example, "default": shown}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Section(Kind):
    """A mapping of the fields that a dataclass declares."""

    cls: type[Any]
    sample: str = ""

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a mapping with {}".format(", ".join(f"`{name}`" for name in fields_of(self.cls)))

    def read(self, item: Item) -> Any:
        return self.cls(**self.values(item))

    def values(self, item: Item) -> dict[str, Any]:
        """The fields that are given; an empty value gives none."""
        if not isinstance(item.value, (dict, type(None))):
            raise Wrong(f"is {item.shown}; it takes {self.words}", f"such as `{self.sample}`")
        return dict(each((item.value or {}).items(), self._field))

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """The dataclass from its recorded form; an older record may have had other fields."""
        known = {name: value for name, value in data.items() if name in fields_of(self.cls)}
        return self.cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})

    def _field(self, name: str, item: Item) -> tuple[str, Any]:
        fields = fields_of(self.cls)
        if name not in fields:
            raise self.unknown(name)
        return name, fields[name].metadata["kind"].read(item)

    def unknown(self, name: str) -> Wrong:
        """The error for a field that is not declared."""
        meant = nearest(name, list(fields_of(self.cls)))
        return Wrong("is not known here", f"did you mean `{meant}`?" if meant else f"it takes {self.words}")

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return outer.with_entry(inner.split("."), item)

    def schema(self) -> dict[str, Any]:
        properties = {
            name: dict(field.metadata["kind"].schema(), description=field.metadata["about"])
            for name, field in fields_of(self.cls).items()
        }
        return {"anyOf": [{"type": "object", "properties": properties, "additionalProperties": False}, {"type": "null"}]}


class Fields(Section):
    """The same, as a dictionary of the fields that are given."""

    def read(self, item: Item) -> dict[str, Any]:
        return self.values(item)


def fields_of(cls: type[Any]) -> dict[str, Field[Any]]:
    """The fields of a dataclass that users set, by name."""
    return {found.name: found for found in fields(cls) if "kind" in found.metadata}


def engine_options(engine: str) -> Any:
    """The module in which an engine declares OPTIONS, the section of a job, and Site, the dataclass of that of config.toml."""
    return importlib.import_module(f"muster.engines.{engine}.options")


@dataclass(frozen=True)
class EngineOptions(Kind):
    """The options of a job for one engine, whose module is imported when they are needed."""

    engine: str

    @property
    def section(self) -> Section:
        section: Section = engine_options(self.engine).OPTIONS
        return section

    @property
    def words(self) -> str:  # type: ignore[override]
        return self.section.words

    def read(self, item: Item) -> Any:
        return self.section.read(item)

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return self.section.put(outer, inner, item)

    def opened(self, item: Item) -> Item:
        return self.section.opened(item)

    def over(self, before: Item, item: Item) -> Item:
        return self.section.over(before, item)

    def schema(self) -> dict[str, Any]:
        return self.section.schema()

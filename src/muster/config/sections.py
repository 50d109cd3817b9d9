"""Kinds of values that only config.toml has; all others are those of job files."""

from __future__ import annotations

import re

from muster.job.kinds import ENV_NAME, Item, Kind, Section, Table, Wrong, each, fields_of, one_line


class ConfigError(Exception):
    """Settings that cannot be used; the text says what to do."""


class TomlSection(Section):
    """A section with declared fields. Its values may be secrets: none is repeated."""

    def values(self, item: Item) -> dict[str, object]:
        if not isinstance(item.value, dict):
            raise Wrong("is a single value", "it takes a section, with its name in brackets")
        return super().values(item)

    def unknown(self, name: str) -> Wrong:
        known = list(fields_of(self.cls))
        return Wrong("is not known", f"there {'are' if len(known) > 1 else 'is'} {', '.join(known)}")


class TomlTable(Table):
    """Sections by any name."""

    def read(self, item: Item) -> dict[str, object]:
        if not isinstance(item.value, dict):
            raise Wrong("is a single value", "it takes sections, each with a name of its own in brackets")
        return super().read(item)


class Setting(Kind):
    """A text on one line, which may be empty."""

    def read(self, item: Item) -> str:
        if not isinstance(item.value, str):
            raise Wrong("is not a text", "put it into quotes")
        return one_line(item.value)


class Secrets(Kind):
    """Texts by the names of variables."""

    def read(self, item: Item) -> dict[str, str]:
        if not isinstance(item.value, dict):
            raise Wrong("is a single value", 'it takes lines such as `KEY = "..."`')
        return dict(each(item.value.items(), self._secret))

    def _secret(self, name: str, item: Item) -> tuple[str, str]:
        if not re.fullmatch(ENV_NAME, name):
            raise Wrong("cannot be the name of a variable", "rename it")
        if not isinstance(item.value, str) or "\0" in item.value:
            raise Wrong("is not a text", "put it into quotes")
        return name, item.value

"""Settings of stores: `[storage]` for all URLs, `[storage.obs]` and `[storage.s3]` for one kind, and the same in a profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.config.errors import ConfigError

SCHEMES = ("obs", "s3")
STYLES = ("path", "virtual")
KEYS = ("access_key", "secret_key", "token")
FILES = ("ca", "keys")
TEXTS = ("endpoint", "region", "style", *FILES, *KEYS)


def check(section: Any, where: str, path: Path) -> None:
    """Refuses settings that are not known or cannot be meant."""
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: `{where}` is a single value; it takes a section, `[{where}]`")
    for name, value in section.items():
        if name in SCHEMES and where.endswith("storage"):
            check(value, f"{where}.{name}", path)
        else:
            _check_field(name, value, f"{path}: `{where}.{name}`")


def _check_field(name: str, value: Any, shown: str) -> None:
    if name == "timeout":
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"{shown} is not a number of seconds; write one such as 30")
        return
    if name not in TEXTS:
        raise ConfigError(f"{shown} is not known; there are {', '.join([*TEXTS, 'timeout'])}")
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"{shown} is not a text; put it into quotes")
    if name == "style" and value not in STYLES:
        raise ConfigError(f'{shown} is neither "path" nor "virtual"; write one of them')


def holds_keys(section: dict[str, Any]) -> bool:
    parts = (section, *(section.get(scheme, {}) for scheme in SCHEMES))
    return any(part.get(name) for part in parts for name in KEYS)


def merged(sections: Sequence[dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """The settings of each kind of URL; a later section counts more, and in each what is said of one kind alone."""
    found: dict[str, dict[str, Any]] = {}
    for scheme in SCHEMES:
        fields: dict[str, Any] = {}
        for section in sections:
            for layer in (section, section.get(scheme, {})):
                said = {name: value for name, value in layer.items() if name not in SCHEMES}
                if "keys" in said or "access_key" in said:  # keys of two places do not belong together
                    fields = {name: value for name, value in fields.items() if name not in (*KEYS, "keys")}
                fields.update(said)
        for name in FILES:
            if fields.get(name):
                fields[name] = str(folder / Path(fields[name]).expanduser())
        found[scheme] = fields
    return found

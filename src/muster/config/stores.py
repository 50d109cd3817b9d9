"""Settings of stores: `[storage]` for all URLs, `[storage.obs]` and `[storage.s3]` for one kind, and the same in a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.config.sections import Setting, TomlFields
from muster.job.kinds import Choice, Item, Kind, Wrong, declared

SCHEMES = ("obs", "s3")
KEYS = ("access_key", "secret_key", "token")
FILES = ("ca", "keys")


class Seconds(Kind):
    """A number of seconds."""

    def read(self, item: Item) -> float:
        if item.number is None or not item.number > 0:
            raise Wrong("is not a number of seconds", "write one such as 30")
        return item.number


@dataclass(frozen=True)
class Store:
    """How the store of one kind of URL is reached."""

    endpoint: str = declared(Setting(), "", "The address of the store.")
    region: str = declared(Setting(), "", "Its region.")
    style: str = declared(Choice(("path", "virtual")), "", "Whether buckets stand in the path or in the host name.")
    ca: str = declared(Setting(), "", "The authority of its certificate.")
    keys: str = declared(Setting(), "", "A file of keys like ~/.aws/credentials.")
    access_key: str = declared(Setting(), "", "The access key.")
    secret_key: str = declared(Setting(), "", "The secret key.")
    token: str = declared(Setting(), "", "The session token.")
    timeout: float = declared(Seconds(), 0.0, "For how many seconds a store may be silent.")


@dataclass(frozen=True)
class Stores(Store):
    """The settings of all stores, and of one kind of URL alone."""

    obs: dict[str, Any] = declared(TomlFields(Store), {}, "Settings of obs:// URLs.")
    s3: dict[str, Any] = declared(TomlFields(Store), {}, "Settings of s3:// URLs.")


SECTION = TomlFields(Stores)


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

"""Settings of stores: `[storage]` for all URLs, `[storage.obs]` and `[storage.s3]` for one kind, and the same in a profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from muster.config.sections import Setting, TomlSection
from muster.dataclass import dataclass, fields
from muster.job.kinds import Choice, Duration, declared

KEYS = ("access_key", "secret_key", "token")
FILES = ("ca", "keys")


@dataclass(frozen=True)
class Store:
    """How the store of one kind of URL is reached; None for settings that are not given."""

    endpoint: str | None = declared(Setting(), None, "The address of the store.")
    region: str | None = declared(Setting(), None, "Its region.")
    style: str | None = declared(Choice(("path", "virtual")), None, "Whether buckets stand in the path or in the host name.")
    ca: str | None = declared(Setting(), None, "The authority of its certificate.")
    keys: str | None = declared(Setting(), None, "A file of keys like ~/.aws/credentials.")
    access_key: str | None = declared(Setting(), None, "The access key.")
    secret_key: str | None = declared(Setting(), None, "The secret key.")
    token: str | None = declared(Setting(), None, "The session token.")
    timeout: float | None = declared(Duration(), None, "For how many seconds a store may be silent.")

    @property
    def has_keys(self) -> bool:
        return bool(self.access_key or self.secret_key or self.token)

    def given(self) -> dict[str, str]:
        """The settings that are given, as the text that an environment variable would hold."""
        values = {field.name: getattr(self, field.name) for field in fields(Store)}
        return {name: str(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Stores(Store):
    """The settings of all stores, and of one kind of URL alone."""

    obs: Store = declared(TomlSection(Store), Store(), "Settings of obs:// URLs.")
    s3: Store = declared(TomlSection(Store), Store(), "Settings of s3:// URLs.")


SECTION = TomlSection(Stores)


def merged(sections: Sequence[Stores], folder: Path) -> dict[str, dict[str, str]]:
    """The settings by kind of URL: a later section counts more, and in each section the part of that kind alone."""
    return {
        "obs": _merged([layer for section in sections for layer in (section, section.obs)], folder),
        "s3": _merged([layer for section in sections for layer in (section, section.s3)], folder),
    }


def _merged(layers: Sequence[Store], folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for layer in layers:
        if layer.keys is not None or layer.access_key is not None:  # keys of two places do not belong together
            found = {name: value for name, value in found.items() if name not in (*KEYS, "keys")}
        found.update(layer.given())
    return {name: str(folder / Path(value).expanduser()) if name in FILES and value else value for name, value in found.items()}

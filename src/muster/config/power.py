"""Settings of power: `[power]` for all nodes, `[power.hosts.NAME]` for those that have a BMC of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.addresses import Addresses
from muster.config.sections import ConfigError, Setting, TomlSection, TomlTable
from muster.dataclass import dataclass, replace
from muster.job.kinds import Choice, Flag, Item, Wrong, declared, fields_of


class Resource(Setting):
    """The address of a Redfish resource."""

    def read(self, item: Item) -> str:
        url = super().read(item)
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or len(parts.path) < 2 or "@" in parts.netloc:
            example = "https://bmc.example/redfish/v1/Chassis/1/Power"
            raise Wrong("is not the address of a resource", f"write one such as {example}, without a password")
        return url


class Bmc(Setting):
    """The host name of a BMC."""

    def read(self, item: Item) -> str:
        name = super().read(item)
        if name.startswith("-"):
            raise Wrong("is not the name of a host", "write that of a BMC")
        return name


@dataclass(frozen=True, repr=False)
class Host:
    """How the power of a node is measured; None for settings that are not given."""

    source: str | None = declared(Choice(("auto", "rapl", "ipmi", "redfish", "off")), None, "Where power is read.")
    redfish: str | None = declared(Resource(), None, "The Redfish resource with the power of a BMC.")
    ipmi_host: str | None = declared(Bmc(), None, "The BMC that IPMI asks.")
    user: str | None = declared(Setting(), None, "The user of the BMC.")
    password: str | None = declared(Setting(), None, "The password of that user.")
    password_secret: str | None = declared(Setting(), None, "The variable that holds it.")
    ca: str | None = declared(Setting(), None, "The authority of the BMC's certificate.")
    verify: bool | None = declared(Flag(), None, "Whether that certificate is checked.")

    def given(self) -> dict[str, Any]:
        """The settings that are given."""
        return {name: value for name in fields_of(Host) if (value := getattr(self, name)) is not None}

    def over(self, common: Host) -> Host:
        """These settings, completed by those of all hosts; a password in either form replaces theirs."""
        if self.password is not None or self.password_secret is not None:
            common = replace(common, password=None, password_secret=None)
        return replace(common, **self.given())

    def ready(self, folder: Path, secrets: Mapping[str, str], addresses: Addresses) -> dict[str, Any]:
        """The settings that are given, with the password itself, an absolute path and addresses; raises ConfigError."""
        found = self.given()
        if name := found.pop("password_secret", ""):
            if name not in secrets:
                where = f"{folder / 'config.toml'} names the secret `{name}` in `power`, which is not set"
                raise ConfigError(f"{where}; export it, or put it into a profile")
            found["password"] = secrets[name]
        if self.ca:
            found["ca"] = str(folder / Path(self.ca).expanduser())
        if self.redfish:
            found["address"] = addresses.find(urlsplit(self.redfish).hostname or "") or ""
        if self.ipmi_host:
            found["ipmi_host"] = addresses.of(self.ipmi_host)
        return found


class HostSection(TomlSection):
    """The settings of a host, or of all."""

    def values(self, item: Item) -> dict[str, Any]:
        found = super().values(item)
        if "password" in found and "password_secret" in found:
            raise Wrong("has `password` and `password_secret`", "keep one of them")
        return found


@dataclass(frozen=True, repr=False)
class Power(Host):
    """The settings of all nodes, and of those that have a BMC of their own."""

    hosts: dict[str, Host] = declared(TomlTable(HostSection(Host), pattern=r"[\s\S]*"), {}, "Settings by host.")

    @property
    def has_password(self) -> bool:
        return any(part.password for part in (self, *self.hosts.values()))

    def secrets(self) -> set[str]:
        """The names of the variables that hold passwords."""
        return {part.password_secret for part in (self, *self.hosts.values()) if part.password_secret}

    def travelling(self, folder: Path, secrets: Mapping[str, str], host: str, addresses: Addresses) -> str:
        """The settings in JSON for Muster's processes on the nodes, passwords included; `host` is the submitter's machine."""
        hosts = {name: own.over(self).ready(folder, secrets, addresses) for name, own in self.hosts.items()}
        return json.dumps({**self.ready(folder, secrets, addresses), "hosts": hosts, "host": host})


SECTION = HostSection(Power)


def without_passwords(text: str) -> str:
    """The travelling settings for processes that ranks can inspect: they say which BMCs need a password, not the password."""
    common = json.loads(text)
    hosts = {name: _public(section) for name, section in common["hosts"].items()}
    return json.dumps({**_public(common), "hosts": hosts})


def _public(section: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in section.items() if name != "password"}
    return {**found, "apart": True} if section.get("password") else found

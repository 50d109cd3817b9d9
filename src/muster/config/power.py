"""Settings of power: `[power]` for all nodes, `[power.hosts.NAME]` for those that have a BMC of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.config.sections import ConfigError, Setting, TomlFields, TomlTable
from muster.job.kinds import Choice, Flag, Item, Wrong, declared

KEYS = ("password", "password_secret")


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


@dataclass(frozen=True)
class Host:
    """How the power of a node is measured."""

    source: str = declared(Choice(("auto", "rapl", "ipmi", "redfish", "off")), "auto", "Where power is read.")
    redfish: str = declared(Resource(), "", "The resource that a BMC tells power by.")
    ipmi_host: str = declared(Bmc(), "", "The BMC that IPMI asks.")
    user: str = declared(Setting(), "", "The user of the BMC.")
    password: str = declared(Setting(), "", "The password of that user.")
    password_secret: str = declared(Setting(), "", "The variable that holds it.")
    ca: str = declared(Setting(), "", "The authority of the BMC's certificate.")
    verify: bool = declared(Flag(), True, "Whether that certificate is checked.")


class HostFields(TomlFields):
    """The settings of a host, or of all."""

    def values(self, item: Item) -> dict[str, Any]:
        found = super().values(item)
        if all(name in found for name in KEYS):
            raise Wrong("has `password` and `password_secret`", "keep one of them")
        return found


@dataclass(frozen=True)
class Power(Host):
    """The settings of all nodes, and of those that have a BMC of their own."""

    hosts: dict[str, Any] = declared(TomlTable(HostFields(Host), pattern=r"[\s\S]*"), {}, "Settings by host.")


SECTION = HostFields(Power)


def holds_keys(section: Mapping[str, Any]) -> bool:
    return any(part.get("password") for part in (section, *section.get("hosts", {}).values()))


def secrets(section: Mapping[str, Any]) -> set[str]:
    """The names of the variables that hold passwords."""
    return {part["password_secret"] for part in (section, *section.get("hosts", {}).values()) if part.get("password_secret")}


def travelling(section: Mapping[str, Any], folder: Path, secrets: Mapping[str, str], host: str) -> str:
    """The settings as Muster's own processes on the nodes get them, passwords included; `host` is the submitter's machine."""
    common = {name: value for name, value in section.items() if name != "hosts"}
    hosts = {name: _layered(common, own) for name, own in section.get("hosts", {}).items()}
    ready = {name: _ready(fields, folder, secrets) for name, fields in hosts.items()}
    return json.dumps({**_ready(common, folder, secrets), "hosts": ready, "host": host})


def without_passwords(text: str) -> str:
    """Such settings for processes that a rank may look at: which BMCs want a password, and not which."""
    common = json.loads(text)
    hosts = {name: _public(section) for name, section in common["hosts"].items()}
    return json.dumps({**_public(common), "hosts": hosts})


def _public(section: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in section.items() if name != "password"}
    return {**found, "apart": True} if section.get("password") else found


def _layered(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of one host counts more than what is said of all; its password in either form replaces theirs."""
    taken = {name: value for name, value in common.items() if not (name in KEYS and set(KEYS) & set(own))}
    return {**taken, **own}


def _ready(fields: Mapping[str, Any], folder: Path, secrets: Mapping[str, str]) -> dict[str, Any]:
    found = {name: value for name, value in fields.items() if name != "password_secret"}
    if name := fields.get("password_secret"):
        if name not in secrets:
            place = folder / "config.toml"
            raise ConfigError(
                f"{place} names the secret `{name}` in `power`, which is not set; export it, or put it into a profile"
            )
        found["password"] = secrets[name]
    if found.get("ca"):
        found["ca"] = str(folder / Path(found["ca"]).expanduser())
    return found

"""Settings of power: `[power]` for all nodes, `[power.hosts.NAME]` for those that have a BMC of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.config.errors import ConfigError

SOURCES = ("auto", "rapl", "ipmi", "redfish", "off")
TEXTS = ("source", "redfish", "ipmi_host", "user", "password", "password_secret", "ca")
KEYS = ("password", "password_secret")


def check(section: Any, path: Path, where: str = "power") -> None:
    """Refuses settings that are not known or cannot be meant."""
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: `{where}` is a single value; it takes a section, `[{where}]`")
    for name, value in section.items():
        if name == "hosts" and where == "power":
            _check_hosts(value, path)
        else:
            _check_field(name, value, f"{path}: `{where}.{name}`")
    if "password" in section and "password_secret" in section:
        raise ConfigError(f"{path}: `{where}` has `password` and `password_secret`; keep one of them")


def _check_hosts(hosts: Any, path: Path) -> None:
    if not isinstance(hosts, dict):
        raise ConfigError(f"{path}: `power.hosts` is a single value; it takes sections, `[power.hosts.NAME]`")
    for name, section in hosts.items():
        check(section, path, f"power.hosts.{name}")


def _check_field(name: str, value: Any, shown: str) -> None:
    if name == "verify":
        if not isinstance(value, bool):
            raise ConfigError(f"{shown} is neither true nor false; write one of them, without quotes")
        return
    if name not in TEXTS:
        raise ConfigError(f"{shown} is not known; there are {', '.join([*TEXTS, 'verify'])}")
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"{shown} is not a text; put it into quotes")
    if name == "source" and value not in SOURCES:
        raise ConfigError(f"{shown} is not a source of power; write one of {', '.join(SOURCES)}")
    if name == "redfish" and not _is_resource(value):
        example = "https://bmc.example/redfish/v1/Chassis/1/Power"
        raise ConfigError(f"{shown} is not the address of a resource; write one such as {example}, without a password")
    if name == "ipmi_host" and value.startswith("-"):
        raise ConfigError(f"{shown} is not the name of a host; write that of a BMC")


def _is_resource(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and bool(parts.hostname) and len(parts.path) > 1 and "@" not in parts.netloc


def holds_keys(section: Mapping[str, Any]) -> bool:
    return any(part.get("password") for part in (section, *section.get("hosts", {}).values()))


def secrets(section: Mapping[str, Any]) -> set[str]:
    """The names of the variables that hold passwords."""
    return {part["password_secret"] for part in (section, *section.get("hosts", {}).values()) if part.get("password_secret")}


def travelling(section: Mapping[str, Any], folder: Path, secrets: Mapping[str, str], host: str) -> str:
    """The settings as Muster's own processes on the nodes get them, passwords included; `host` is the submitter's machine."""
    told = {name: value for name, value in section.items() if name != "hosts"}
    hosts = {name: _layered(told, own) for name, own in section.get("hosts", {}).items()}
    ready = {name: _ready(fields, folder, secrets) for name, fields in hosts.items()}
    return json.dumps({**_ready(told, folder, secrets), "hosts": ready, "host": host})


def without_passwords(text: str) -> str:
    """Such settings for processes that a rank may look at: which BMCs want a password, and not which."""
    told = json.loads(text)
    hosts = {name: _public(section) for name, section in told["hosts"].items()}
    return json.dumps({**_public(told), "hosts": hosts})


def _public(section: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in section.items() if name != "password"}
    return {**found, "apart": True} if section.get("password") else found


def _layered(told: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of one host counts more than what is said of all; its password in either form replaces theirs."""
    taken = {name: value for name, value in told.items() if not (name in KEYS and set(KEYS) & set(own))}
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

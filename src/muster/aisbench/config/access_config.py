"""`access_config`: credentials for the cloud. They go into a profile, never into a job file or a message."""

from dataclasses import dataclass, field
from typing import Any

from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.config.values import UNREAD, ConfigValue, Findings
from muster.aisbench.package import Package
from muster.job.kinds import nearest
from muster.job.rules import SECRET
from muster.storage import Access, StorageError

KEYS = ("access_key", "secret_access_key", "server", "region_name", "project_id")
ENDPOINTS = ("iam_endpoint", "obs_endpoint", "modelarts_endpoint")


@dataclass(frozen=True)
class Credentials:
    """Credentials for a profile: settings of the store, and secrets by the names of their variables."""

    storage: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return bool(self.storage or self.secrets)

    def profile(self) -> dict[str, dict[str, Any]]:
        """Returns the sections of the profile."""
        sections: dict[str, dict[str, Any]] = {"secrets": self.secrets} if self.secrets else {}
        return {**sections, "storage": {"obs": self.storage}} if self.storage else sections


def secrets(package: Package) -> dict[str, str]:
    """Returns the passwords and keys of config.sh by their names in a profile."""
    return {name: str(package.variables[name].value) for name in own_secrets(package)}


def own_secrets(package: Package) -> list[str]:
    """Names of the variables of config.sh that hold passwords and keys."""
    return [name for name, found in package.variables.items() if SECRET.search(name) and not found.empty]


def read(package: Package, findings: Findings) -> dict[str, str]:
    """Checks `access_config` and returns the settings of its store."""
    config = package.settings.get("access_config")
    if package.kind == OFFLINE or (config is not None and config.value is UNREAD):
        return {}
    if config is None or not isinstance(config.value, dict):
        hint = "write it as `access_config = ed({'access_key': '...'})`"
        findings.cloud_problem(ConfigValue(None, package.file), "access_config", "is missing", hint)
        return {}
    _check(config, findings)
    given = {name: found.value.strip() for name, found in config.items() if isinstance(found.value, str)}
    storage = {
        "endpoint": given.get("server") or given.get("obs_endpoint", ""),
        "region": given.get("region_name", ""),
        "access_key": given.get("access_key", ""),
        "secret_key": given.get("secret_access_key", ""),
    }
    return {name: value for name, value in storage.items() if value} if storage["access_key"] else {}


def _check(config: ConfigValue, findings: Findings) -> None:
    for name, found in config.items():
        if name not in (*KEYS, *ENDPOINTS):
            meant = nearest(name, (*KEYS, *ENDPOINTS))
            shown = f"access_config.{name}" if meant else "access_config"  # an unknown name may be a key by mistake
            message = "is not known" if meant else "has a name that is not known"
            findings.problem(found, shown, message, f"did you mean `{meant}`?" if meant else "remove it")
        elif not isinstance(found.value, str | None):
            findings.problem(found, f"access_config.{name}", "is not a text", "put it into quotes")
    filled = {name: bool((at := config.get(name)) and not at.empty) for name in (*KEYS, *ENDPOINTS)}
    _check_keys(config, filled, findings)
    if any(filled[name] for name in ENDPOINTS) and not all(filled[name] for name in ENDPOINTS):
        for name in (name for name in ENDPOINTS if not filled[name]):
            message = "is empty while another endpoint is set, and the three count only together"
            findings.cloud_problem(config.get(name) or config, f"access_config.{name}", message, "set all three, or none")


def _check_keys(config: ConfigValue, filled: dict[str, bool], findings: Findings) -> None:
    pair = ("access_key", "secret_access_key")
    for name in (name for name in pair if not filled[name]):
        add = findings.problem if any(filled[other] for other in pair) else findings.cloud_problem
        add(config.get(name) or config, f"access_config.{name}", "is empty", "fill it in")
    if all(filled[name] for name in pair) and not filled["server"] and not filled["obs_endpoint"]:
        message = "is empty, and the keys need the address of a store"
        findings.problem(config.get("server") or config, "access_config.server", message, "write the address of OBS")
    for name in ("region_name", "project_id"):
        if not filled[name]:
            findings.note(config.get(name) or config, f"access_config.{name}", "is empty; a cloud wants it")
    for name in ("server", "obs_endpoint"):
        found = config.get(name)
        if found is not None and isinstance(found.value, str):
            _check_address(found, found.value.strip(), f"access_config.{name}", findings)


def _check_address(found: ConfigValue, address: str, name: str, findings: Findings) -> None:
    if "@" in address or " " in address:
        findings.problem(found, name, "is no address", "write one such as https://obs.cn-north-4.myhuaweicloud.com")
        return
    try:
        Access.completed(address)
    except StorageError:
        message = f"is `{address}`, which names no store, or leaves open whether it speaks http or https"
        findings.problem(
            found, name, message, "write one such as https://obs.cn-north-4.myhuaweicloud.com, or http://10.0.0.1:9000"
        )

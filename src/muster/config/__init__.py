"""The settings of a user: `config.toml` in MUSTER_HOME, with profiles that hold secrets.

```toml
engine = "slurm"             # where jobs run unless the command says so; without it `local`

[local]
namespaces = true            # false: simulated nodes share the machine's process ids and host name

[storage]                    # where obs:// and s3:// URLs live; without it under MUSTER_HOME
endpoint = "https://obs.cn-north-4.myhuaweicloud.com"
keys = "~/.muster/keys"      # a file like ~/.aws/credentials, readable by you alone

[power]                      # how the power of nodes is measured; see docs/sampling.md
redfish = "https://bmc.example/redfish/v1/Chassis/1/Power"
user = "reader"
password_secret = "BMC_PASSWORD"

[slurm]                      # what the engine `slurm` asks for; see docs/slurm.md
partition = "train"
python = "/usr/bin/python3"  # of the nodes

[tester]                     # where `muster bench` and `muster tester send` send results
url = "https://tester.example:9527"
token = "..."                # or MUSTER_TESTER_TOKEN, in the environment or a profile's secrets
ca = "tester-ca.pem"         # the authority of its certificate, where the system does not know it

[profiles.default.secrets]   # the file must be readable by you alone (chmod 600)
WANDB_API_KEY = "..."
```
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.config import power, slurm, stores, tester
from muster.config.errors import ConfigError

__all__ = ["ENGINES", "Config", "ConfigError", "load"]

ENGINES = ("local", "slurm")  # what can be named; the engines themselves are in a room of their own
FIELDS = {"local": {"namespaces": bool}}
CHECKS: dict[str, Callable[[Any, Path], None]] = {"power": power.check, "tester": tester.check, "slurm": slurm.check}
OTHERS = ("storage", *CHECKS, "profiles")


@dataclass(frozen=True)
class Config:
    engine: str = "local"
    namespaces: bool = True
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    storage: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)  # by kind of URL: obs, s3
    tester: tester.Tester = field(default_factory=tester.Tester, repr=False)
    power: dict[str, Any] = field(default_factory=dict, repr=False)
    slurm: slurm.Slurm = field(default_factory=slurm.Slurm)


def load(home: str) -> Config:
    """The settings under a home, with the secrets of the chosen profile ($MUSTER_PROFILE, else `default`)."""
    path = Path(home) / "config.toml"
    data = _read(path)
    _check(data, path)
    profiles = data.get("profiles", {})
    _refuse_readers(data, path)
    profile = os.environ.get("MUSTER_PROFILE") or "default"
    if profile != "default" and profile not in profiles:
        known = ", ".join(f"`{name}`" for name in profiles) or "none"
        raise ConfigError(f"{path} has no profile `{profile}`, which MUSTER_PROFILE names; it has {known}")
    chosen = profiles.get(profile, {})
    storage = stores.merged([data.get("storage", {}), chosen.get("storage", {})], path.parent)
    secrets = chosen.get("secrets", {})
    sent_to = tester.read(data.get("tester", {}), secrets, path.parent)
    site = slurm.read(data.get("slurm", {}))
    namespaces = data.get("local", {}).get("namespaces", True)
    return Config(data.get("engine", "local"), namespaces, secrets, storage, sent_to, data.get("power", {}), site)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {str(error.strerror).lower()}; make it a file that you can read") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{path} is not TOML: {reason}; texts need quotes, and sections brackets") from None


def _refuse_readers(data: dict[str, Any], path: Path) -> None:
    profiles = data.get("profiles", {}).values()
    keys = any(stores.holds_keys(entry.get("storage", {})) for entry in (data, *profiles))
    others = power.holds_keys(data.get("power", {})) or data.get("tester", {}).get("token")
    if (keys or others or any(entry.get("secrets") for entry in profiles)) and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} holds secrets and others can read it; run `chmod 600 {path}`")


def _check(data: dict[str, Any], path: Path) -> None:
    for section, entries in data.items():
        if section == "engine":
            _check_engine(entries, path)
            continue
        if section not in (*FIELDS, *OTHERS):
            raise ConfigError(f"{path}: `{section}` is not known; there are {', '.join(['engine', *FIELDS, *OTHERS])}")
        if not isinstance(entries, dict):
            raise ConfigError(f"{path}: `{section}` is a single value; it takes a section, `[{section}]`")
        if section == "profiles":
            _check_profiles(entries, path)
            continue
        if section == "storage":
            stores.check(entries, section, path)
            continue
        if section in CHECKS:
            CHECKS[section](entries, path)
            continue
        for name, value in entries.items():
            kind = FIELDS[section].get(name)
            if kind is None:
                raise ConfigError(f"{path}: `{section}.{name}` is not known; there is {', '.join(FIELDS[section])}")
            if not isinstance(value, kind):
                raise ConfigError(f"{path}: `{section}.{name}` is neither true nor false; write one of them, without quotes")


def _check_engine(name: Any, path: Path) -> None:
    if name not in ENGINES:
        shown = f"is `{name}`, which is not known" if isinstance(name, str) else "is not a name"
        names = '" or "'.join(ENGINES)
        raise ConfigError(f'{path}: `engine` {shown}; write "{names}"')


def _check_profiles(profiles: dict[str, Any], path: Path) -> None:
    for name, profile in profiles.items():
        if not isinstance(profile, dict):
            raise ConfigError(f"{path}: `profiles.{name}` is a single value; write secrets below `[profiles.{name}.secrets]`")
        for unknown in set(profile) - {"secrets", "storage"}:
            raise ConfigError(f"{path}: `profiles.{name}.{unknown}` is not known; a profile has `secrets` and `storage`")
        stores.check(profile.get("storage", {}), f"profiles.{name}.storage", path)
        secrets = profile.get("secrets", {})
        if not isinstance(secrets, dict):
            raise ConfigError(f'{path}: `profiles.{name}.secrets` is a single value; it takes lines such as `KEY = "..."`')
        for secret, value in secrets.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", secret):
                raise ConfigError(f"{path}: `{secret}` in profile `{name}` cannot be the name of a variable; rename it")
            if not isinstance(value, str) or "\0" in value:
                raise ConfigError(f"{path}: `{secret}` in profile `{name}` is not a text; put it into quotes")

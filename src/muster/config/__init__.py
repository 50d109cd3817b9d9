"""The settings of a user: `config.toml` in MUSTER_HOME, with profiles that hold secrets.

```toml
[local]
namespaces = true            # false: simulated nodes share the machine's process ids and host name

[profiles.default.secrets]   # the file must be readable by you alone (chmod 600)
WANDB_API_KEY = "..."
```
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FIELDS = {"local": {"namespaces": bool}}


class ConfigError(Exception):
    """Settings that cannot be used; the text says what to do."""


@dataclass(frozen=True)
class Config:
    namespaces: bool = True
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


def load(home: str) -> Config:
    """The settings under a home, with the secrets of the chosen profile ($MUSTER_PROFILE, else `default`)."""
    path = Path(home) / "config.toml"
    if not path.exists():
        return Config()
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    _check(data, path)
    profile = os.environ.get("MUSTER_PROFILE", "default")
    profiles = data.get("profiles", {})
    if profile != "default" and profile not in profiles:
        raise ConfigError(f"{path} has no profile `{profile}`, which MUSTER_PROFILE names")
    secrets = profiles.get(profile, {}).get("secrets", {})
    if any("secrets" in entry for entry in profiles.values()) and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} holds secrets and others can read it; run `chmod 600 {path}`")
    return Config(data.get("local", {}).get("namespaces", True), secrets)


def _check(data: dict[str, Any], path: Path) -> None:
    for section, entries in data.items():
        if section == "profiles":
            _check_profiles(entries, path)
            continue
        if section not in FIELDS or not isinstance(entries, dict):
            raise ConfigError(f"{path}: `{section}` is not a section; known are {', '.join([*FIELDS, 'profiles'])}")
        for name, value in entries.items():
            kind = FIELDS[section].get(name)
            if kind is None:
                raise ConfigError(f"{path}: `{section}.{name}` is not known; known are {', '.join(FIELDS[section])}")
            if not isinstance(value, kind):
                raise ConfigError(f"{path}: `{section}.{name}` takes true or false")


def _check_profiles(profiles: Any, path: Path) -> None:
    for name, profile in profiles.items() if isinstance(profiles, dict) else []:
        secrets = profile.get("secrets", {}) if isinstance(profile, dict) else None
        if not isinstance(secrets, dict) or not all(isinstance(value, str) for value in secrets.values()):
            raise ConfigError(f"{path}: profile `{name}` takes `secrets`, a table of texts")
        for unknown in set(profile) - {"secrets"}:
            raise ConfigError(f"{path}: `profiles.{name}.{unknown}` is not known; a profile has `secrets`")

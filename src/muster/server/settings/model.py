"""Settings as administrators see them: values with their units, and where each is set."""

from dataclasses import dataclass
from typing import Literal

Value = bool | int | float | str | list[str] | None
Unit = Literal["", "bytes", "seconds"]


@dataclass(frozen=True)
class Setting:
    name: str
    value: Value  # null where nothing is set
    where: str  # an option of `muster serve`, or section and key of config.toml; empty for what is fixed
    unit: Unit = ""


@dataclass(frozen=True)
class SettingsSection:
    name: str  # server, addresses, sessions, limits, webhooks, modelarts, or pool
    pool: str  # the name of the pool
    settings: list[Setting]


@dataclass(frozen=True)
class ServerSettings:
    version: str
    config: str  # the path of config.toml, whether it is there or not
    sections: list[SettingsSection]

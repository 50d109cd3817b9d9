"""Which sources of power a node has: what the settings ask for, as far as it is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from muster.agent.sampler.ipmi import Ipmi
from muster.agent.sampler.rapl import Rapl
from muster.devices import Unmeasured

VARIABLE = "MUSTER_POWER"
PAUSE = 5.0  # seconds between two questions to a BMC


class Settings(NamedTuple):
    """What config.toml says for one node."""

    source: str = "auto"
    redfish: str = ""
    ipmi_host: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    verify: bool = True
    apart: bool = False  # whether the password is not here, but with a process that answers for the BMC


class Sources(NamedTuple):
    rapl: Rapl | None
    slow: list[Any]  # Ipmi or Redfish: they have a name, watts() and close()
    missing: dict[str, str]


def settings(text: str, facts: Mapping[str, Any]) -> Settings:
    """The settings of one node, from those of all: what is said of its host counts more."""
    told = json.loads(text) if text else {}
    hosts = told.pop("hosts", {})
    machine = told.pop("host", "")
    own = str(facts.get("host", ""))
    names = [own, own.partition(".")[0]]
    if str(facts.get("address", "")).startswith("127."):  # simulated, on the submitter's machine
        names = [machine, machine.partition(".")[0]]
    special: dict[str, Any] = next((hosts[name] for name in names if name in hosts), {})
    return Settings(**{**told, **special})


def open_sources(chosen: Settings, line: int | None = None) -> Sources:
    """The sources that are there, and why the others are not; `line` leads to the process that has the password."""
    if chosen.source == "off":
        return Sources(None, [], {"power": "it is switched off in config.toml"})
    missing: dict[str, str] = {}
    found = {name: _open(name, make, missing) for name, make in makers(chosen, line).items()}
    if not any(found.values()):
        missing["power"] = "; ".join(missing.values())
    rapl = found.pop("rapl", None)
    return Sources(rapl, [source for source in found.values() if source], missing)


def makers(chosen: Settings, line: int | None = None) -> dict[str, Callable[[], Any]]:
    """How to open each of the sources that the settings ask for."""
    found: dict[str, Callable[[], Any]] = {
        "rapl": Rapl,
        "ipmi": lambda: Ipmi(chosen.ipmi_host, chosen.user, chosen.password),
        "redfish": lambda: _redfish(chosen),
    }
    if chosen.apart and line is not None:
        from muster.agent.sampler.behind import Asked

        found.update(ipmi=lambda: Asked("ipmi", line), redfish=lambda: Asked("redfish", line))
    if chosen.source != "auto":
        return {chosen.source: found[chosen.source]}
    return found


def _redfish(chosen: Settings) -> Any:
    if not chosen.redfish:
        raise Unmeasured("no `redfish` is configured")
    from muster.agent.sampler.redfish import Redfish  # it brings in HTTP and TLS, which most nodes do not need

    return Redfish(chosen.redfish, chosen.user, chosen.password, chosen.ca, chosen.verify)


def _open(name: str, make: Callable[[], Any], missing: dict[str, str]) -> Any:
    try:
        return make()
    except Unmeasured as error:
        missing[name] = str(error)
        return None

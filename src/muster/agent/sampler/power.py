"""The sources of power of a node: those that the settings ask for, as far as the machine has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Protocol

from muster.agent.sampler.ipmi import Ipmi
from muster.agent.sampler.rapl import Rapl
from muster.devices import Unmeasured

VARIABLE = "MUSTER_POWER"
PAUSE = 5.0  # seconds between two requests to a BMC


class Settings(NamedTuple):
    """The settings in config.toml for one node."""

    source: str = "auto"
    redfish: str = ""
    ipmi_host: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    verify: bool = True
    apart: bool = False  # the password is not here, but with the process that queries the BMC
    address: str = ""  # where the host of `redfish` is, if [resolve] says it


class Bmc(Protocol):
    """Measures the power of the whole server."""

    name: str

    def watts(self) -> float: ...

    def close(self) -> None: ...


class Sources(NamedTuple):
    rapl: Rapl | None
    bmcs: list[Bmc]
    missing: dict[str, str]


def settings(text: str, facts: Mapping[str, Any]) -> Settings:
    """The settings of one node from those of all; settings for its host come first."""
    common = json.loads(text) if text else {}
    hosts = common.pop("hosts", {})
    machine = common.pop("host", "")
    simulated = str(facts.get("address", "")).startswith("127.")  # on the submitter's machine
    own = machine if simulated else str(facts.get("host", ""))
    special: dict[str, Any] = hosts.get(own, hosts.get(own.partition(".")[0], {}))
    return Settings(**{**common, **special})


def open_sources(chosen: Settings, descriptor: int | None = None) -> Sources:
    """Opens the sources that exist, and says why the others are missing.

    `descriptor` is a socket to the process that has the password of the BMC, where there is one.
    """
    if chosen.source == "off":
        return Sources(None, [], {"power": "it is switched off in config.toml"})
    openers: dict[str, Callable[[], Any]] = {"rapl": Rapl} if chosen.source in ("auto", "rapl") else {}
    opened, missing = {}, {}
    for name, make in {**openers, **bmc_openers(chosen, descriptor)}.items():
        try:
            opened[name] = make()
        except Unmeasured as error:
            missing[name] = str(error)
    if not opened:
        missing["power"] = "; ".join(missing.values())
    return Sources(opened.pop("rapl", None), list(opened.values()), missing)


def bmc_openers(chosen: Settings, descriptor: int | None = None) -> dict[str, Callable[[], Bmc]]:
    """Functions that open the BMC in each of the ways that the settings ask for."""
    found: dict[str, Callable[[], Bmc]] = {
        "ipmi": lambda: Ipmi(chosen.ipmi_host, chosen.user, chosen.password),
        "redfish": lambda: _redfish(chosen),
    }
    if chosen.apart and descriptor is not None:
        from muster.agent.sampler.bmc_proxy import BmcClient

        found = {"ipmi": lambda: BmcClient("ipmi", descriptor), "redfish": lambda: BmcClient("redfish", descriptor)}
    return {name: make for name, make in found.items() if chosen.source in ("auto", name)}


def _redfish(chosen: Settings) -> Bmc:
    if not chosen.redfish:
        raise Unmeasured("no `redfish` is configured")
    from muster.agent.sampler.redfish import Redfish  # imports HTTP and TLS, which most nodes do not need

    return Redfish(chosen.redfish, chosen.user, chosen.password, chosen.ca, chosen.verify, chosen.address)

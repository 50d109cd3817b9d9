"""The files that describe a cluster in offline mode: the rank table, and the hosts with their logins."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

from muster.aisbench.config.found import Findings, Found, read_text


@dataclass(frozen=True)
class Table:
    """The servers of a rank table, with how many devices each has."""

    servers: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hosts:
    """The hosts of a nodeinfo file in their order, and the passwords among their logins."""

    names: tuple[str, ...] = ()
    passwords: dict[str, str] = field(default_factory=dict, repr=False)


def rank_table(at: Found, base: str, findings: Findings) -> Table | None:
    """The rank table that RANK_TABLE_FILE names, from `base` on; what is wrong with it is said there or in the file."""
    data, place = _json(at, base, "RANK_TABLE_FILE", findings)
    servers = data.get("server_list") if isinstance(data, dict) else None
    if data is None:
        return None
    if not isinstance(servers, list) or not servers or not all(isinstance(entry, dict) for entry in servers):
        findings.wrong(place, "server_list", "is missing or empty", "make the table again, such as with `muster ranktable`")
        return None
    devices = [entry.get("device") if isinstance(entry.get("device"), list) else [] for entry in servers]
    names = tuple(str(entry.get("server_id", "")) for entry in servers)
    ranks = [str(device.get("rank_id", "")) for entry in devices for device in entry if isinstance(device, dict)]
    if ranks != [str(rank) for rank in range(len(ranks))]:
        findings.wrong(place, "rank_id", "does not count from 0 over all servers", "make the table again")
    said = data.get("server_count")
    if said is not None and str(said) != str(len(servers)):
        findings.wrong(place, "server_count", f"is {said}, and server_list has {len(servers)}", "correct the count")
    if len(set(names)) < len(names) or not all(names):
        findings.wrong(place, "server_id", "is missing or stands twice", "give every server its own address")
    return Table(names, tuple(len(entry) for entry in devices))


def hosts(at: Found, base: str, findings: Findings) -> Hosts | None:
    """The hosts that NODEINFO_FILE names, from `base` on."""
    data, place = _json(at, base, "NODEINFO_FILE", findings)
    cluster = data.get("cluster") if isinstance(data, dict) else None
    if data is None:
        return None
    if not isinstance(cluster, dict) or not cluster or not all(isinstance(entry, dict) for entry in cluster.values()):
        findings.wrong(place, "cluster", "is missing or empty", 'write {"cluster": {"192.168.1.2": {"user": "root"}}}')
        return None
    for name, login in cluster.items():
        for unknown in sorted(set(login) - {"user", "pd", "port"}):
            findings.wrong(place, f"cluster.{name}.{unknown}", "is not known", "a host has `user`, `pd` and `port`")
        port = str(login.get("port", "22") or "22")
        if not port.isdigit() or not 0 < int(port) < 65536:
            findings.wrong(place, f"cluster.{name}.port", "is not a port", "write a number such as 22, or leave it out")
    passwords = {_variable(name): str(login["pd"]) for name, login in cluster.items() if login.get("pd")}
    return Hosts(tuple(cluster), passwords)


def _variable(host: str) -> str:
    """The name under which the password of a host is kept."""
    return "NODE_PASSWORD_" + re.sub(r"[^A-Za-z0-9]", "_", host)


def _json(at: Found, base: str, name: str, findings: Findings) -> tuple[Any, Found]:
    path = os.path.abspath(os.path.join(base, str(at.value)))
    place = Found(None, path)
    if not os.path.isfile(path):
        findings.refused(at, name, f"names {at.value}, which is not there", "correct the path")
        return None, place
    text = read_text(path, findings)
    try:
        return (json.loads(text) if text is not None else None), place
    except (ValueError, RecursionError) as error:
        at = Found(None, path, getattr(error, "lineno", None))
        findings.wrong(at, "", "is not JSON", "check the brackets and commas there, and remove comments")
        return None, place

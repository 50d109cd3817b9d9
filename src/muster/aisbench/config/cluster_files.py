"""The files that describe a cluster in offline mode: the rank table, and the hosts with their logins (nodeinfo)."""

import os
import re
from dataclasses import dataclass, field
from typing import Any

from muster.aisbench.config.values import ConfigValue, Findings, parse_json, read_text


@dataclass(frozen=True)
class RankTable:
    """The servers of a rank table, and the number of devices of each."""

    servers: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hosts:
    """The hosts of a nodeinfo file in their order, and their passwords by variable."""

    names: tuple[str, ...] = ()
    passwords: dict[str, str] = field(default_factory=dict, repr=False)


def rank_table(at: ConfigValue, base: str, findings: Findings) -> RankTable | None:
    """Reads the rank table that RANK_TABLE_FILE names, relative to `base`, and checks it."""
    data, file = _json(at, base, "RANK_TABLE_FILE", findings)
    servers = data.get("server_list") if isinstance(data, dict) else None
    if data is None:
        return None
    if not isinstance(servers, list) or not servers or not all(isinstance(entry, dict) for entry in servers):
        findings.problem(file, "server_list", "is missing or empty", "make the table again, such as with `muster ranktable`")
        return None
    devices = [entry.get("device") if isinstance(entry.get("device"), list) else [] for entry in servers]
    names = tuple(str(entry.get("server_id", "")) for entry in servers)
    ranks = [str(device.get("rank_id", "")) for entry in devices for device in entry if isinstance(device, dict)]
    if ranks != [str(rank) for rank in range(len(ranks))]:
        findings.problem(file, "rank_id", "does not count from 0 over all servers", "make the table again")
    count = data.get("server_count")
    if count is not None and str(count) != str(len(servers)):
        findings.problem(file, "server_count", f"is {count}, and server_list has {len(servers)}", "correct the count")
    if len(set(names)) < len(names) or not all(names):
        findings.problem(file, "server_id", "is missing or stands twice", "give every server its own address")
    return RankTable(names, tuple(len(entry) for entry in devices))


def hosts(at: ConfigValue, base: str, findings: Findings) -> Hosts | None:
    """Reads the hosts that NODEINFO_FILE names, relative to `base`, and checks them."""
    data, file = _json(at, base, "NODEINFO_FILE", findings)
    cluster = data.get("cluster") if isinstance(data, dict) else None
    if data is None:
        return None
    if not isinstance(cluster, dict) or not cluster or not all(isinstance(entry, dict) for entry in cluster.values()):
        findings.problem(file, "cluster", "is missing or empty", 'write {"cluster": {"192.168.1.2": {"user": "root"}}}')
        return None
    for name, login in cluster.items():
        for unknown in sorted(set(login) - {"user", "pd", "port"}):
            findings.problem(file, f"cluster.{name}.{unknown}", "is not known", "a host has `user`, `pd` and `port`")
        port = str(login.get("port", "22") or "22")
        if not port.isdigit() or not 0 < int(port) < 65536:
            findings.problem(file, f"cluster.{name}.port", "is not a port", "write a number such as 22, or leave it out")
    variables = {name: "NODE_PASSWORD_" + re.sub(r"[^A-Za-z0-9]", "_", name) for name in cluster}
    passwords = {variables[name]: str(login["pd"]) for name, login in cluster.items() if login.get("pd")}
    return Hosts(tuple(cluster), passwords)


def _json(at: ConfigValue, base: str, name: str, findings: Findings) -> tuple[Any, ConfigValue]:
    path = os.path.abspath(os.path.join(base, str(at.value)))
    file = ConfigValue(None, path)
    if not os.path.isfile(path):
        findings.cloud_problem(at, name, f"names {at.value}, which is not there", "correct the path")
        return None, file
    text = read_text(path, findings)
    return (parse_json(text, path, findings) if text is not None else None), file

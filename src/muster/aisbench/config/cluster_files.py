"""The files that describe a cluster in offline mode: the rank table, and the hosts with their logins (nodeinfo)."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.aisbench.config.values import ConfigValue, Findings, parse_json, read_text
from muster.job.kinds import EngineOptions, Wrong, typed


@dataclass(frozen=True)
class RankTable:
    """The servers of a rank table, and the number of devices of each."""

    servers: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Host:
    """A host of a nodeinfo file: its name there, how ssh reaches it, and whether the file holds a password for it."""

    name: str
    user: str
    port: str
    has_password: bool

    @property
    def login(self) -> str:
        """The host as `hosts` of a job names it."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")

    @property
    def key_command(self) -> str:
        """The command that installs the user's key there."""
        port = ["-p", self.port] if self.port else []
        return shlex.join(["ssh-copy-id", *port, f"{self.user}@{self.name}" if self.user else self.name])


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


def hosts(at: ConfigValue, base: str, findings: Findings) -> tuple[Host, ...] | None:
    """Reads the hosts that NODEINFO_FILE names, relative to `base`, in their order, and checks them."""
    data, file = _json(at, base, "NODEINFO_FILE", findings)
    cluster = data.get("cluster") if isinstance(data, dict) else None
    if data is None:
        return None
    if not isinstance(cluster, dict) or not cluster or not all(isinstance(entry, dict) for entry in cluster.values()):
        findings.problem(file, "cluster", "is missing or empty", 'write {"cluster": {"192.168.1.2": {"user": "root"}}}')
        return None
    return tuple(_host(name, login, file, findings) for name, login in cluster.items())


def _host(name: str, login: Mapping[str, Any], file: ConfigValue, findings: Findings) -> Host:
    for unknown in sorted(set(login) - {"user", "pd", "port"}):
        findings.problem(file, f"cluster.{name}.{unknown}", "is not known", "a host has `user`, `pd` and `port`")
    host = Host(name, str(login.get("user") or ""), str(login.get("port") or ""), bool(login.get("pd")))
    if host.port and (not re.fullmatch("[0-9]{1,5}", host.port) or not 0 < int(host.port) < 65536):
        findings.problem(file, f"cluster.{name}.port", "is not a port", "write a number such as 22, or leave it out")
    elif not _is_one_host(host.login):
        message = f"is no host that ssh reaches as `{host.login}`"
        findings.problem(file, f"cluster.{name}", message, "write its address or name, and a user without spaces, `@` and `:`")
    return host


def _is_one_host(login: str) -> bool:
    try:
        return bool(EngineOptions("ssh").read(typed([login])).nodes == (login,))
    except Wrong:
        return False


def _json(at: ConfigValue, base: str, name: str, findings: Findings) -> tuple[Any, ConfigValue]:
    path = os.path.abspath(os.path.join(base, str(at.value)))
    file = ConfigValue(None, path)
    if not os.path.isfile(path):
        findings.cloud_problem(at, name, f"names {at.value}, which is not there", "correct the path")
        return None, file
    text = read_text(path, findings)
    return (parse_json(text, path, findings) if text is not None else None), file

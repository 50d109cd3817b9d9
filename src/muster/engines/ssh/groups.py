"""Which hosts a job runs on: those it names, those of its hostfile, or those of a group in config.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.dataclass import fields, replace
from muster.engines.ssh.node import ssh_options
from muster.engines.ssh.options import (
    DIRECTORY,
    LOST_AFTER,
    ONCE,
    Common,
    HostsOptions,
    Site,
    expanded,
    expanded_all,
    named_twice,
)
from muster.job import Job
from muster.job.kinds import Wrong, nearest

Problem = tuple[str, str, str]
SMALLEST_PORT = 200  # of hostfiles, but 22: a smaller number means processes of a host


def choose(job: Job, groups: Mapping[str, Site]) -> tuple[HostsOptions, list[Problem]]:
    """The hosts of a job with all settings, as many as it has nodes; or why that cannot be."""
    own: HostsOptions = job.hosts or HostsOptions()
    chosen, problems = meant(own, groups)
    needed = job.nodes + job.ps
    if not problems and needed > len(chosen.nodes):
        place = f"`{own.group}`" if own.group else "`hosts`"
        message = f"asks for {needed} nodes, and {place} has {len(chosen.nodes)}"
        return chosen, [("nodes", message, "name more hosts, or use fewer nodes")]
    if twice := named_twice(chosen.nodes):
        problems.append(("hosts", f"names `{twice}` twice", ONCE))
    return replace(chosen, nodes=chosen.nodes[:needed]), problems


def meant(own: HostsOptions, groups: Mapping[str, Site]) -> tuple[HostsOptions, list[Problem]]:
    """All hosts that options mean, with all settings; or why there are none."""
    if not own.nodes and not own.hostfile and not own.group and len(groups) == 1:
        own = replace(own, group=next(iter(groups)))
    group = groups.get(own.group, Site())
    if own.group and own.group not in groups:
        if own.nodes or own.hostfile:
            return own, [_unknown_group(own.group, groups)]
        try:
            own = replace(own, group="", nodes=tuple(expanded(own.group)))  # a single host
        except Wrong as wrong:
            if re.search("[@:]", own.group):  # a host, with a mistake
                return own, [("hosts", *_first(wrong))]
            return own, [_unknown_group(own.group, groups)]
    chosen = _over(own, group)
    if own.hostfile:
        try:
            chosen = replace(chosen, nodes=tuple(read_hostfile(own.hostfile)))
        except (OSError, Wrong) as error:
            reason, hint = (str(error.strerror).lower(), "check the path") if isinstance(error, OSError) else _first(error)
            return chosen, [("hosts", f"names the hostfile {own.hostfile}, which cannot be used: {reason}", hint)]
    if not chosen.nodes:
        hint = "write `hosts: [node1, node2]`, use `--hosts node1,node2`, or make a group `[hosts.lab]` in config.toml"
        return chosen, [("hosts", "is needed by the engine ssh", hint)]
    return chosen, []


def _over(own: HostsOptions, group: Common) -> HostsOptions:
    """A job's own options over those of its group, and these over the defaults."""
    found = {
        field.name: given if (given := getattr(own, field.name)) not in ("", None, ()) else getattr(group, field.name)
        for field in fields(Common)
    }
    found["directory"] = found["directory"] or DIRECTORY
    found["lost_after"] = LOST_AFTER if found["lost_after"] is None else found["lost_after"]
    found["namespaces"] = found["namespaces"] is not False
    return HostsOptions(**found)  # without the group: a rerun takes the recorded hosts, whatever has become of it


def _first(wrong: Wrong) -> tuple[str, str]:
    return wrong.each[0].message, wrong.each[0].hint


def mistyped(name: str, groups: Mapping[str, Site]) -> list[Problem]:
    """Why a name is neither a group nor a host; nothing for one that ssh may reach."""
    if not name or not groups or name in groups or re.search("[@:]", name) or ssh_options.may_be_reached(name):
        return []
    known = ", ".join(f"`{group}`" for group in groups)
    meant = nearest(name, list(groups))
    hint = f"did you mean `{meant}`?" if meant else f"there are the groups {known}"
    return [("hosts", f"names `{name}`, which is no group of config.toml, and no host has that name", hint)]


def _unknown_group(name: str, groups: Mapping[str, Site]) -> Problem:
    known = f"there are {', '.join(f'`{group}`' for group in groups)}" if groups else "config.toml has none"
    return "hosts", f"names the group `{name}`, which config.toml does not have", f"{known}; a group is `[hosts.{name}]`"


def read_hostfile(path: str) -> list[str]:
    """The hosts of a hostfile: the first word of each line; what follows, such as `slots=8`, is for MPI. Raises Wrong.

    A host on several lines is one host, which MPI gives more slots.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.partition("#")[0].split() for line in file.read(1 << 20).splitlines()]
    for words in (words for words in lines if words):
        name, _, number = words[0].rpartition(":")
        if name and number.isdecimal() and int(number) < SMALLEST_PORT and number != "22":
            hint = f"MPICH's number of processes is written as `{name} slots={number}`"
            raise Wrong(f"`{words[0]}` would be the port {number} of {name}", hint)
    return list(dict.fromkeys(expanded_all(words[0] for words in lines if words)))

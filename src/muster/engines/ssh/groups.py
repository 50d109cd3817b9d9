"""Which hosts a job runs on: those it names, those of its hostfile, or those of a group in config.toml."""

from __future__ import annotations

from collections.abc import Mapping

from muster.dataclass import fields, replace
from muster.engines.ssh.options import DIRECTORY, LOST_AFTER, ONCE, Common, HostsOptions, Site, expanded, named_twice
from muster.job import Job
from muster.job.kinds import Wrong

Problem = tuple[str, str, str]


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
        except Wrong:
            return own, [_unknown_group(own.group, groups)]
    chosen = _over(own, group)
    if own.hostfile:
        try:
            chosen = replace(chosen, nodes=tuple(read_hostfile(own.hostfile)))
        except (OSError, Wrong) as error:
            reason = str(error.strerror).lower() if isinstance(error, OSError) else error.each[0].message
            return chosen, [("hosts", f"names the hostfile {own.hostfile}, which cannot be used: {reason}", "check the path")]
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


def _unknown_group(name: str, groups: Mapping[str, Site]) -> Problem:
    known = f"there are {', '.join(f'`{group}`' for group in groups)}" if groups else "config.toml has none"
    return "hosts", f"names the group `{name}`, which config.toml does not have", f"{known}; a group is `[hosts.{name}]`"


def read_hostfile(path: str) -> list[str]:
    """The hosts of a hostfile: the first word of each line; what follows, such as `slots=8`, is for MPI. Raises Wrong.

    A host on several lines is one host, which MPI gives more slots.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.partition("#")[0].split() for line in file.read(1 << 20).splitlines()]
    return list(dict.fromkeys(host for words in lines if words for host in expanded(words[0])))

"""The options of the ssh engine: the hosts of a job, and groups of hosts in config.toml.

They are declared here once, for the job's `hosts:`, `[hosts.NAME]` in config.toml, the JSON Schema and docs/job-file.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from muster.dataclass import dataclass, replace
from muster.job.kinds import (
    SCALAR,
    Duration,
    Flag,
    Item,
    Kind,
    Line,
    Section,
    Wrong,
    declared,
    each,
    numbered,
    one_line,
    scalar,
    word,
)

LOST_AFTER = 60.0
DIRECTORY = "~/.muster"
MOST_HOSTS = 20000
WHICH = ("group", "nodes", "hostfile")  # options that say which hosts
ONCE = "each host takes part once"
_RANGE = re.compile(r"(?P<before>[^\[\]]*)\[(?P<inside>[0-9]+(?:[-,][0-9]+)*)\](?P<behind>.*)")
HOST = r"^([^@\s:\-][^@\s:]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][\w.\-]*)(:[0-9]{1,5})?$"


def expanded(text: str) -> list[str]:
    """The hosts that a text with ranges means: `node[01-16]`, `train@rack[1,3-5]:2222`. Raises Wrong."""
    found = _RANGE.fullmatch(text)
    if found is None or ":" in found["inside"]:
        return [_checked(text)]
    hosts: list[str] = []
    for number in _numbers(found["inside"], text):
        hosts += expanded(found["before"] + number + found["behind"])
        _check_count(len(hosts), text)
    return hosts


def _checked(host: str) -> str:
    if not re.fullmatch(HOST, host):
        raise Wrong(f"`{host}` is not a host", "write `name`, `user@name` or `name:port`, ranges as `node[01-16]`")
    port = re.search(r":([0-9]+)$", host)
    if port and not 0 < int(port[1]) < 1 << 16:
        raise Wrong(f"`{host}` has no port", "ports are 1 to 65535")
    return host


def _numbers(inside: str, text: str) -> list[str]:
    """The numbers of a range such as `1,08-11`, as they are written."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        width, count = len(first) if first.startswith("0") else 0, int(last or first) - int(first) + 1
        if count < 1:
            raise Wrong(f"`{text}` is a range without an order", "write the smaller number first")
        _check_count(len(numbers) + count, text)
        numbers += [f"{number:0{width}}" for number in range(int(first), int(first) + count)]
    return numbers


def _check_count(count: int, text: str) -> None:
    if count > MOST_HOSTS:
        raise Wrong(f"`{text}` is more than {MOST_HOSTS} hosts", "name those of this run")


def named_twice(hosts: Sequence[str]) -> str:
    """The first host that is named more than once; empty where there is none."""
    counts = Counter(hosts)
    return next((host for host in hosts if counts[host] > 1), "")


class HostNames(Kind):
    """Hosts, ranges expanded."""

    words = "a list of hosts such as `[node1, train@node2:2222]`"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list) or not item.value:
            said = "an empty list" if isinstance(item.value, list) else item.shown
            raise Wrong(f"is {said}; it takes {self.words}", "ranges are written as `node[01-16]`")
        found = [host for hosts in each(numbered(item), self._hosts) for host in hosts]
        if twice := named_twice(found):
            raise Wrong(f"names `{twice}` twice", ONCE)
        return tuple(found)

    def _hosts(self, name: str, item: Item) -> list[str]:
        return expanded(one_line(word(item)))

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": SCALAR, "pattern": r"\S"}, "minItems": 1}


@dataclass(frozen=True)
class Common:
    """What a job and a group of hosts can both say."""

    nodes: tuple[str, ...] = declared(HostNames(), (), "The hosts, in the order of the nodes.")
    interface: str = declared(Line(), "", "The network interface whose address the ranks use, such as `ib0`.")
    python: str = declared(Line(), "", "The Python, 3.9 or newer, that runs Muster's agent on the hosts.")
    directory: str = declared(Line(), "", f"Where agent, code and records lie on the hosts; without it `{DIRECTORY}`.")
    shared: str = declared(Line(), "", "A directory that all of these hosts see; what nodes share lies there.")
    ssh: bool | None = declared(Flag(), None, "Whether nodes of a run may reach each other by ssh.")
    namespaces: bool | None = declared(Flag(), None, "Whether agents may put their nodes into namespaces.")
    lost_after: float | None = declared(
        Duration(), None, "How long a host may be out of reach before its ranks are stopped; `60s` without it."
    )


@dataclass(frozen=True)
class HostsOptions(Common):
    """A job's own hosts; what is empty is left to their group."""

    group: str = declared(Line(), "", "The group of hosts in config.toml.")
    hostfile: str = declared(Line(), "", "A file that names a host on each line, as MPI's hostfiles do.")


@dataclass(frozen=True)
class Site(Common):
    """A group of hosts."""


class HostsSection(Section):
    """The same, where a text is the name of a group and a list are hosts."""

    def read(self, item: Item) -> Any:
        if isinstance(item.value, list):
            return HostsOptions(nodes=HostNames().read(item))
        if item.value is None or isinstance(item.value, dict):
            return super().read(item)
        names = _split(one_line(scalar(item, self.words)))
        if len(names) == 1 and "[" not in names[0]:
            return HostsOptions(group=names[0])
        return HostsOptions(nodes=tuple(host for name in names for host in expanded(name)))

    def opened(self, item: Item) -> Item:
        if isinstance(item.value, list) and item.value:
            return replace(item, value={"nodes": item})
        if item.value in (None, "") or isinstance(item.value, (dict, list)):
            return item
        names = _split(item.text)
        if len(names) == 1 and "[" not in names[0]:
            return replace(item, value={"group": item})
        return replace(item, value={"nodes": replace(item, value=[replace(item, value=name, text=name) for name in names])})

    def over(self, before: Item, item: Item) -> Item:
        """Other hosts; what was said of them, such as their `interface`, stays."""
        options, hosts = self.opened(before).value, self.opened(item).value
        if isinstance(item.value, dict) or not isinstance(options, dict) or not isinstance(hosts, dict):
            return item
        kept = {name: entry for name, entry in options.items() if name not in WHICH}
        return replace(item, value={**kept, **hosts}) if kept else item

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": SCALAR, "pattern": r"\S"}, HostNames().schema(), *super().schema()["anyOf"]]}


def _split(text: str) -> list[str]:
    """The hosts of a text with commas, those within brackets apart."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


OPTIONS = HostsSection(HostsOptions, "{group: lab, interface: ib0}")

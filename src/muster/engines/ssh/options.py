"""The options of the ssh engine: the hosts of a job, and groups of hosts in config.toml.

They are declared here once, for the job's `hosts:`, `[hosts.NAME]` in config.toml, the JSON Schema and docs/job-file.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
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
_PART = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_RANGE = re.compile(rf"(?P<before>[^\[\]]*)\[(?P<inside>{_PART}(?:,{_PART})*)\](?P<behind>.*)")
MOST_RANGES, LONGEST, SHOWN = 8, 512, 80  # ranges of a text, letters of a host beside them, and those of a message
# A user's name may not hold what a shell reads: a ProxyCommand of ~/.ssh/config may pass it on to one.
HOST = r"""^([^@\s:\-'"`$;&<>|(){}][^@\s:'"`$;&<>|(){}]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][\w.\-]*)(:[0-9]{1,5})?$"""


def expanded(text: str, most: int = MOST_HOSTS) -> list[str]:
    """The hosts that a text with ranges means: `node[01-16]`, `train@rack[1,3-5]:2222`; at most so many. Raises Wrong."""
    hosts, rest = [""], text
    if text.count("[") <= MOST_RANGES and len(re.sub(r"\[[^\]]*\]", "", text)) <= LONGEST:
        while found := _RANGE.fullmatch(rest):
            numbers, rest = _numbers(found["inside"], text, most), found["behind"]
            _check_count(len(hosts) * len(numbers), text, most)
            hosts = [host + found["before"] + number for host in hosts for number in numbers]
    _check_count(len(hosts), text, most)
    return [_checked(host + rest) for host in hosts]


def expanded_all(texts: Iterable[str]) -> list[str]:
    """The hosts that several texts mean. Raises Wrong, also where they are too many together."""
    hosts: list[str] = []
    for text in texts:
        hosts += expanded(text, MOST_HOSTS - len(hosts))
    return hosts


def _checked(host: str) -> str:
    if len(host) > LONGEST or not re.fullmatch(HOST, host):
        raise Wrong(f"`{_short(host)}` is not a host", "write `name`, `user@name` or `name:port`, ranges as `node[01-16]`")
    port = re.search(r":([0-9]+)$", host)
    if port and not 0 < int(port[1]) < 1 << 16:
        raise Wrong(f"`{host}` has no port", "ports are 1 to 65535")
    return host


def _numbers(inside: str, text: str, most: int) -> list[str]:
    """The numbers of a range such as `1,08-11`, as they are written."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        width, count = len(first) if first.startswith("0") else 0, int(last or first) - int(first) + 1
        if count < 1:
            raise Wrong(f"`{_short(text)}` is a range without an order", "write the smaller number first")
        _check_count(len(numbers) + count, text, most)
        numbers += [f"{number:0{width}}" for number in range(int(first), int(first) + count)]
    return numbers


def _check_count(count: int, text: str, most: int) -> None:
    if count > most:
        together = "with the hosts before it, " if most < MOST_HOSTS else ""
        raise Wrong(f"{together}`{_short(text)}` is more than {MOST_HOSTS} hosts", "name those of this run")


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


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
        found: list[str] = []
        each(numbered(item), lambda _, entry: found.extend(expanded(one_line(word(entry)), MOST_HOSTS - len(found))))
        if twice := named_twice(found):
            raise Wrong(f"names `{twice}` twice", ONCE)
        return tuple(found)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": SCALAR, "pattern": r"\S"}, "minItems": 1}


class HostPath(Line):
    """A path on the hosts, where no directory is the current one of a run."""

    words = "a path on the hosts such as `/data/muster` or `~/muster`"
    pattern = r"^(/|~(/|$))[^\x00-\x1f\x7f]*$"

    def read(self, item: Item) -> str:
        path = super().read(item)
        if not re.match(self.pattern, path):
            raise Wrong(f"is `{_short(path)}`, which does not begin with `/` or `~/`", f"write {self.words}")
        return path


@dataclass(frozen=True)
class Common:
    """What a job and a group of hosts can both say."""

    nodes: tuple[str, ...] = declared(HostNames(), (), "The hosts, in the order of the nodes.")
    interface: str = declared(Line(), "", "The network interface whose address the ranks use, such as `ib0`.")
    python: str = declared(Line(), "", "The Python, 3.9 or newer, that runs Muster's agent on the hosts.")
    directory: str = declared(HostPath(), "", f"Where agent, code and records lie on the hosts; without it `{DIRECTORY}`.")
    shared: str = declared(HostPath(), "", "A directory that all of these hosts see; what nodes share lies there.")
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
        return HostsOptions(nodes=tuple(expanded_all(names)))

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

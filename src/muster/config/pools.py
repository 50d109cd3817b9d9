"""Pools of `muster serve`: named engines on which its users' jobs run, and what these jobs may ask for."""

from __future__ import annotations

import re
from typing import Any

from muster.config.sections import Setting, TomlSection, TomlTable
from muster.dataclass import dataclass
from muster.job.kinds import (
    Choice,
    Count,
    Duration,
    Flag,
    Item,
    Kind,
    Pairs,
    Size,
    Wrong,
    declared,
    each,
    numbered,
    one_line,
    word,
)

ENGINES = ("local", "slurm", "ssh")
OF_USER, OF_PROJECT = "user:", "project:"  # before a name in a table of accounts, where both have it
USERS = "users"  # one operating-system account for each user of the server
NAME = r"^[a-z0-9][a-z0-9-]{0,31}$"
MOST_RUNS = 300
UIDS = 700_000  # the first user id that is given out
MINIMUM_RUNTIME, CHECK_EVERY = 300.0, 300.0  # seconds
LONGEST_GRACE = 600.0
LOST_AFTER = 900.0  # where neither pool nor group of hosts says it
DISK_FREE, MEMORY_FREE = 256 << 20, 512 << 20  # bytes
LABELS = Pairs("label", r"^[A-Za-z0-9][\w.\-/]{0,62}$", "up to 63 letters, digits, `_`, `.`, `-` and `/`", '{rack = "a"}')


class Words(Kind):
    """A list of texts."""

    words = "a list of texts"

    def read(self, item: Item) -> tuple[str, ...]:
        if not isinstance(item.value, list):
            raise Wrong(f"is not {self.words}", 'write it as `["a", "b"]`')
        return tuple(each(numbered(item), lambda name, entry: one_line(word(entry))))


class Accounts(Kind):
    """`users`, or operating-system accounts by the names of users and projects."""

    def read(self, item: Item) -> str | dict[str, str]:
        if item.value == USERS:
            return USERS
        if not isinstance(item.value, dict) or not item.value:
            raise Wrong("names no accounts", 'write `accounts = "users"`, or `{ann = "ann", vision = "train"}`')
        return dict(each(item.value.items(), lambda name, entry: (_account_key(name), one_line(word(entry)))))


def _account_key(name: str) -> str:
    if ":" in name and not name.startswith((OF_USER, OF_PROJECT)):
        raise Wrong(f"names `{name}`, which is neither a user nor a project", 'write `"user:ann"` or `"project:vision"`')
    return name


@dataclass(frozen=True)
class PoolNode:
    """What the settings say of a node, or of several: `[pools.lab.nodes."node[01-08]"]`."""

    labels: dict[str, str] = declared(LABELS, {}, "Labels of this node, beside and before those of the pool.")


@dataclass(frozen=True)
class Pool:
    """An engine with a name."""

    engine: str = declared(Choice(ENGINES), "local", "What runs its jobs.")
    hosts: str = declared(Setting(), "", "With the engine ssh: the group of hosts.")
    accounts: Any = declared(
        Accounts(), None, "The operating-system accounts of its jobs: `users`, or a table by user or project."
    )
    project: str = declared(Setting(), "", "The one project that it serves; without it, and with accounts, all of them.")
    trusted: bool = declared(Flag(), False, "Whether projects may share its one account.")
    python: str = declared(Setting(), "", "The Python of jobs that name none; without it `python3` of the machine.")
    runs: int = declared(Count(1, 100_000), MOST_RUNS, "How many runs it has at once at most.")
    paths: tuple[str, ...] = declared(Words(), (), "Directories beneath which jobs may name inputs and outputs.")
    options: tuple[str, ...] = declared(Words(), (), "Options of its engine that jobs may set, such as `partition`.")
    uids: int = declared(Count(1000, 2**31), UIDS, "The first user id that `users` gives out where there is no account.")
    labels: dict[str, str] = declared(LABELS, {}, "Labels of all of its nodes, which `constraints` of jobs name.")
    nodes: dict[str, PoolNode] = declared(
        TomlTable(TomlSection(PoolNode), pattern=r"[\s\S]*"), {}, "With the engine ssh: settings of single hosts."
    )
    cpu: int | None = declared(
        Count(1, 100_000), None, "How many devices of the kind `cpu` a node gives out; not counted else."
    )
    default_time_limit: float | None = declared(Duration(), None, "The time limit of jobs that have none.")
    minimum_runtime: float = declared(Duration(zero=True), MINIMUM_RUNTIME, "How long a run goes on before it is preempted.")
    longest_grace: float = declared(
        Duration(zero=True), LONGEST_GRACE, "The most `grace` of a preemptible job, and of a run that has to make room."
    )
    lost_after: float | None = declared(
        Duration(), None, "With the engine ssh: how long a host may be out of reach before its ranks are stopped."
    )
    check_every: float = declared(Duration(), CHECK_EVERY, "How often its nodes are checked.")
    all_reduce: bool = declared(Flag(), False, "With the engine ssh: whether a check adds numbers up between the hosts.")
    disk_free: int = declared(Size(), DISK_FREE, "Free disk without which a node starts nothing new.")
    memory_free: int = declared(Size(), MEMORY_FREE, "Free memory without which a node starts nothing new.")


class Pools(Kind):
    """Pools by name."""

    def read(self, item: Item) -> dict[str, Pool]:
        found: dict[str, Pool] = TomlTable(TomlSection(Pool)).read(item)  # type: ignore[assignment]
        for name in found:
            if not re.fullmatch(NAME, name):
                raise Wrong(f"`{name}` cannot name a pool", "use up to 32 small letters, digits and dashes")
        return found

"""The picture of a pool: the devices of each node, in groups of those that one run holds or that are in the same state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_CELLS = 64  # devices of one kind that are drawn one by one; more of them are a bar
FREE, RUN, HIDDEN, OTHERS, OUT = "free", "run", "hidden", "others", "out"


@dataclass(frozen=True)
class Group:
    """Devices of a node that one run holds, or that are in the same state."""

    state: str
    count: int
    run: str = ""
    user: str = ""
    project: str = ""
    who: str = ""


@dataclass(frozen=True)
class Kind:
    """The devices of one kind of a node."""

    kind: str
    model: str
    total: int
    free: int
    groups: list[Group]

    @property
    def cells(self) -> bool:
        return self.total <= MOST_CELLS

    @property
    def bars(self) -> Iterator[tuple[Group, float, float]]:
        """The groups with where they begin and how long they are, of 100."""
        begin = 0.0
        for group in self.groups:
            width = 100.0 * group.count / max(1, self.total)
            yield group, round(begin, 2), round(width, 2)
            begin += width


def kinds(node: Mapping[str, Any]) -> list[Kind]:
    """The devices of a node as the API shows it; what its viewer may not see is hidden there already."""
    return [_kind(node, count) for count in node["devices"]]


def _kind(node: Mapping[str, Any], count: Mapping[str, Any]) -> Kind:
    usable = node["state"] == "usable"
    runs = [run for run in node["runs"] if run["kind"] == count["kind"] and run["devices"]]
    groups = [Group(RUN, run["devices"], run["run"], run["user"], run["project"]) for run in runs]
    hidden = count["used"] - sum(run["devices"] for run in runs)
    if hidden > 0:
        groups.append(Group(HIDDEN, hidden))
    if count["others"]:
        who = sorted({one["who"] for one in node["others"] if one["kind"] == count["kind"] and one["who"]})
        groups.append(Group(OTHERS, count["others"], who=", ".join(who)))
    left = count["total"] - sum(group.count for group in groups)
    if left > 0:
        groups.append(Group(FREE if usable else OUT, left))
    return Kind(count["kind"], count["model"], count["total"], count["free"] if usable else 0, groups)

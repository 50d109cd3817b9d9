"""The fields of a job for the queue of a server: whose it is, where and when it may run, and which runs it follows."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds import (
    SCALAR,
    Count,
    Duration,
    Flag,
    Item,
    Kind,
    Line,
    Pairs,
    Section,
    Wrong,
    declared,
    each,
    nearest,
    numbered,
    scalar,
)

OUTCOMES = ("succeeded", "failed", "ended")  # what must have become of a run that another one follows
MOST_AFTER = 100  # runs that one run can follow
MOST_LETTERS = 255  # of a run's id, which names a directory
LEAST_PRIORITY, MOST_PRIORITY, PRIORITY = 1, 1000, 150
LONGEST_HOLD = 24 * 3600.0
RUN = r"^[^\s\x00-\x1f\x7f/{}\[\],:][^\s\x00-\x1f\x7f/]*$"
HERE = "Elsewhere it has no effect."


class After(Kind):
    """Runs, each with what must have become of it."""

    words = "a run, a list of runs, or a mapping of runs to `succeeded`, `failed` or `ended`"
    sample = "such as `{prepare-20260110-080000-abcd: succeeded}`"

    def read(self, item: Item) -> dict[str, str]:
        if isinstance(item.value, dict):
            found = dict(each(item.value.items(), self._pair))
        elif isinstance(item.value, list):
            found = dict.fromkeys(each(numbered(item), lambda name, entry: self._run(entry)), OUTCOMES[0])
        else:
            found = {self._run(item): OUTCOMES[0]}
        if len(found) > MOST_AFTER:
            raise Wrong(f"names {len(found)} runs", f"a run can follow {MOST_AFTER} others at most")
        return found

    def _run(self, item: Item) -> str:
        return _run_id(scalar(item, "a run"), item.shown)

    def _pair(self, run: str, item: Item) -> tuple[str, str]:
        outcome = scalar(item, "`succeeded`, `failed` or `ended`")
        if outcome not in OUTCOMES:
            meant = nearest(outcome, OUTCOMES)
            hint = f"did you mean `{meant}`?" if meant else "it takes `succeeded`, `failed` or `ended`"
            raise Wrong(f"{item.shown} is not known", hint)
        return _run_id(run, f"`{run[:60]}`"), outcome

    def put(self, outer: Item, inner: str, item: Item) -> Item | None:
        return outer.with_entry([inner], item) if isinstance(outer.value, dict) else None

    def schema(self) -> dict[str, Any]:
        run = {"type": SCALAR, "pattern": RUN, "maxLength": MOST_LETTERS}
        outcomes = {"type": "object", "additionalProperties": {"enum": list(OUTCOMES)}, "maxProperties": MOST_AFTER}
        names = {"propertyNames": {"pattern": RUN, "maxLength": MOST_LETTERS}}
        return {"anyOf": [run, {"type": "array", "items": run, "maxItems": MOST_AFTER}, {**outcomes, **names}]}


def _run_id(text: str, shown: str) -> str:
    if len(text) > MOST_LETTERS or not re.fullmatch(RUN, text):
        raise Wrong(f"{shown} is not the id of a run", "`muster ps` lists them")
    return text


@dataclass(frozen=True)
class Constraints:
    """What the nodes of a job must have."""

    labels: dict[str, str] = declared(
        Pairs(
            "label", r"^[A-Za-z0-9][\w.\-/]{0,62}$", "letters, digits, `_`, `.`, `-` and `/`, at most 63 of them", "{rack: a}"
        ),
        {},
        "Labels of nodes, with their values.",
    )
    model: str = declared(Line(), "", "A part of the name of the devices' model, in any case.")


CONSTRAINTS = Section(Constraints, "{labels: {rack: a}, model: Ascend910B}")

PROJECT = declared(
    Line(),
    "",
    f"On a server: the project that the run belongs to; `--project` wins. {HERE}",
    "vision",
    "your only project, if you have one",
)
POOL = declared(
    Line(),
    "",
    f"On a server: which of its pools the job runs in; `--pool` wins. {HERE}",
    "lab",
    "one that can run the job",
)
PRIORITY_FIELD = declared(
    Count(LEAST_PRIORITY, MOST_PRIORITY, f"priorities end at {MOST_PRIORITY}"),
    None,
    f"On a server: jobs of higher priority come first; users have 100 to 200, administrators 1 to 1000. {HERE}",
    "180",
    f"`{PRIORITY}`",
)
PREEMPTIBLE = declared(
    Flag(),
    False,
    "On a server: the run may exceed the quota of its project, and has to leave its devices when a job that is not preemptible "
    f"needs them: its ranks get SIGTERM and `grace`, and it continues later as a new attempt. {HERE}",
    "true",
    "`false`",
)
AFTER = declared(
    After(),
    {},
    "On a server: runs that this one follows, and what must have become of each: `succeeded` (also where nothing is said), "
    "`failed` or `ended`. Without a server such a job is refused.",
    "{prepare-20260110-080000-abcd: succeeded}",
    "none",
)
CONSTRAINTS_FIELD = declared(
    CONSTRAINTS,
    None,
    "On a server: what nodes must have: labels of the pool's nodes, and a part of the name of the devices' model, in any "
    f"case. Pools of Slurm take `slurm.constraint` instead. {HERE}",
    "{labels: {rack: a}, model: Ascend910B}",
    "none",
)
QUEUE_LIMIT = declared(
    Duration(), None, f"On a server: a job that has waited longer fails without having run. {HERE}", "12h", "none"
)
HOLD_ON_FAILURE = declared(
    Duration(most=LONGEST_HOLD),
    None,
    "When the run fails for good, its nodes and devices are kept for this long, at most a day and within `time_limit`, so that "
    "`muster exec` gets a shell where the failed rank was; `muster stop` ends that at once.",
    "2h",
    "not at all",
)

"""What a job measures: the kinds of values that say how numbers are found, combined and judged."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.job.kinds import Choice, Count, Duration, Item, Kind, Text, Wrong, each, nearest, scalar

MOST_REPEATS = 1000


@dataclass(frozen=True)
class Metric:
    """What a number is, where it is found, and how those of several ranks make one."""

    pattern: str = ""  # finds it in the log of a rank, in its one group
    unit: str = ""
    of: str = "rank"  # every rank reports one, or one rank for all of its world
    over: str = "mean"  # how the values of ranks make that of their world
    take: str = "last"  # which of several values of one rank counts
    better: str = ""  # higher, lower, or not said: then nobody can judge a difference


@dataclass(frozen=True)
class Bench:
    """How a job is measured, and what its result must hold."""

    scope: str = "cluster"
    metric: str = "throughput"
    warmup: int = 0
    repeats: int = 1
    combine: str = "mean"
    targets: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    idle: float = 0.0


# What the metrics are that everybody has; others are told from each rank, and the mean counts.
KNOWN = {
    "throughput": Metric(unit="samples/s", over="sum", take="mean", better="higher"),
    "accuracy": Metric(unit="1", of="world", better="higher"),
    "loss": Metric(unit="1", of="world", better="lower"),
    "eval_loss": Metric(unit="1", of="world", better="lower"),
}


@dataclass(frozen=True)
class Number(Kind):
    """A number such as `0.76`."""

    words = "a number such as `0.76`"

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        try:
            value = float(text)
        except ValueError:
            raise Wrong(f"{item.said} is not {self.words}", "write it in plain digits") from None
        if not math.isfinite(value):
            raise Wrong(f"{item.said} is not finite", "it takes " + self.words)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number"}


class Share(Kind):
    """A share such as `5%`; a fraction in the Job."""

    words = "a share such as `5%`"
    pattern = r"^[0-9]+(\.[0-9]+)?%$"

    def read(self, item: Item) -> float:
        text = scalar(item, self.words)
        if not re.fullmatch(self.pattern, text):
            found = re.fullmatch(r"0?\.[0-9]+", text)
            hint = f"did you mean `{float(text) * 100:g}%`?" if found else "write a number and `%` without a space"
            raise Wrong(f"{item.said} is not {self.words}", hint)
        return float(text[:-1]) / 100

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


class Pattern(Text):
    """A regular expression whose one group is a number."""

    words = "a regular expression with one group, such as `fps: ([0-9.]+)`"

    def read(self, item: Item) -> str:
        text = super().read(item)
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise Wrong(f"is no regular expression: {error}", "put it into single quotes: YAML reads backslashes") from None
        if groups != 1:
            hint = "put `(` and `)` around the number; other groups are written `(?:...)`"
            count = f"{groups} groups" if groups else "no group"
            raise Wrong(f"has {count}; it takes {self.words}", hint)
        return text


@dataclass(frozen=True)
class Table(Kind):
    """A mapping of names, known or free, to values of one kind."""

    kind: Kind
    names: tuple[str, ...] = ()  # the known ones; any where there are none
    sample: str = ""
    pattern = r"^[A-Za-z_][\w.\-/]*$"

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"a mapping such as `{self.sample}`"

    def read(self, item: Item) -> dict[str, Any]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.said}; it takes {self.words}", "write a name and a value")
        return dict(each(item.value.items(), self._pair))

    def _pair(self, name: str, item: Item) -> tuple[str, Any]:
        if self.names and name not in self.names:
            meant = nearest(name, self.names)
            hint = (
                f"did you mean `{meant}`?" if meant else "there are {}".format(", ".join(f"`{known}`" for known in self.names))
            )
            raise Wrong("is not known", hint)
        if not re.fullmatch(self.pattern, name):
            raise Wrong("cannot be a name", "it takes letters, digits, `_`, `.`, `-` and `/`, a letter in front")
        return name, self.kind.read(item)

    def schema(self) -> dict[str, Any]:
        names: dict[str, Any] = {"enum": list(self.names)} if self.names else {"pattern": self.pattern}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.kind.schema()}


@dataclass(frozen=True)
class Part(Kind):
    """A mapping of known fields, each of a kind of its own."""

    fields: Mapping[str, tuple[Kind, str]]  # each with what it is about
    sample: str

    @property
    def words(self) -> str:  # type: ignore[override]
        return "a mapping with {}".format(", ".join(f"`{name}`" for name in self.fields))

    def read(self, item: Item) -> Any:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.said}; it takes {self.words}", f"such as `{self.sample}`")
        return dict(each(item.value.items(), self._field))

    def _field(self, name: str, item: Item) -> tuple[str, Any]:
        if name not in self.fields:
            meant = nearest(name, list(self.fields))
            raise Wrong("is not known here", f"did you mean `{meant}`?" if meant else f"it takes {self.words}")
        return name, self.fields[name][0].read(item)

    def schema(self) -> dict[str, Any]:
        properties = {name: dict(kind.schema(), description=text) for name, (kind, text) in self.fields.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}


METRIC = Part(
    {
        "pattern": (Pattern(), "Finds the number in the logs of the ranks, in its one group; each match is one value."),
        "unit": (Text(), "What it is counted in."),
        "of": (
            Choice(("rank", "world"), (("node", "world"), ("all", "world"), ("each", "rank"))),
            "`rank`: every rank reports one. `world`: one rank reports for all.",
        ),
        "over": (Choice(("sum", "mean", "min", "max")), "How the values of ranks make one."),
        "take": (
            Choice(("last", "mean", "median", "min", "max"), (("average", "mean"), ("final", "last"), ("best", "max"))),
            "Which of several values of one rank counts.",
        ),
        "better": (
            Choice(("higher", "lower"), (("max", "higher"), ("min", "lower"))),
            "Which value is the better one. Without it no difference is judged; of `bench.metric` and targets it is `higher`.",
        ),
    },
    "{pattern: 'fps: ([0-9.]+)', unit: images/s}",
)

BENCH = Part(
    {
        "scope": (
            Choice(("cluster", "server"), (("node", "server"), ("single", "server"), ("world", "cluster"), ("all", "cluster"))),
            "`cluster`: one job over all nodes, throughput summed over its ranks. `server`: every node trains alone, "
            "the mean over nodes counts. A script that makes worlds of its own, as AISBench's do with "
            '`env: {SINGLESERVER_MODE: "True"}`, is left to do so.',
        ),
        "metric": (Text(), "The metric that the result is about: `throughput`, unless said otherwise."),
        "warmup": (
            Count(0, 1_000_000),
            "How many first steps of `record.timer`, and first values that a pattern finds, are left out.",
        ),
        "repeats": (Count(1, MOST_REPEATS), "How often the job is run."),
        "combine": (
            Choice(("mean", "median", "olympic"), (("average", "mean"), ("avg", "mean"))),
            "How repeats make one value; `olympic` is the mean without the best and the worst.",
        ),
        "targets": (Table(Number(), sample="{accuracy: 0.76}"), "Values that metrics must reach; the time to it is measured."),
        "limits": (
            Table(Share(), ("ranks", "nodes", "repeats"), "{nodes: 5%}"),
            "How far ranks, nodes and repeats may lie apart: (max - min) / mean.",
        ),
        "idle": (Duration(zero=True), "How long idle power is measured before the ranks start."),
    },
    "{scope: server, repeats: 3}",
)


class Benching(Kind):
    """How a job is measured."""

    words = BENCH.words

    def read(self, item: Item) -> Bench:
        return Bench(**BENCH.read(Item({}) if item.value is None else item))

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [BENCH.schema(), {"type": "null"}]}


class Metrics(Kind):
    """What the numbers of a job are, by name."""

    words = "a mapping of names to what each number is"

    def read(self, item: Item) -> dict[str, Metric]:
        found = Table(Mapped(), sample="{throughput: {pattern: 'fps: ([0-9.]+)'}}").read(item)
        return {name: dataclasses.replace(KNOWN.get(name, Metric()), **given) for name, given in found.items()}

    def schema(self) -> dict[str, Any]:
        return Table(Mapped()).schema()


class Mapped(Kind):
    """One metric, or nothing where its defaults will do."""

    def read(self, item: Item) -> Any:
        return METRIC.read(Item({}) if item.value is None else item)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [METRIC.schema(), {"type": "null"}]}

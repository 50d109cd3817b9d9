"""The measurements of a job: how metrics are found, combined and compared."""

from __future__ import annotations

from muster.dataclass import dataclass, replace
from muster.job.kinds import Choice, Count, Duration, Fields, Item, Kind, Number, Pattern, Section, Share, Table, Text, declared

MOST_REPEATS = 1000


@dataclass(frozen=True)
class Metric:
    """A metric: its unit, where its values are found, and how the values of several ranks are combined."""

    pattern: str = declared(
        Pattern(), "", "Finds the number in the logs of the ranks, in its one group; each match is one value."
    )
    unit: str = declared(Text(), "", "Its unit.")
    of: str = declared(
        Choice(("rank", "world"), (("node", "world"), ("all", "world"), ("each", "rank"))),
        "rank",
        "`rank`: every rank reports one. `world`: one rank reports for all.",
    )
    over: str = declared(Choice(("sum", "mean", "min", "max")), "mean", "How the values of ranks make one.")
    take: str = declared(
        Choice(("last", "mean", "median", "min", "max"), (("average", "mean"), ("final", "last"), ("best", "max"))),
        "last",
        "Which of several values of one rank counts.",
    )
    better: str = declared(
        Choice(("higher", "lower"), (("max", "higher"), ("min", "lower"))),
        "",
        "Which value is the better one. Without it no difference is judged; of `bench.metric` and targets it is `higher`.",
    )


@dataclass(frozen=True)
class Bench:
    """How a job is measured, and what its result must hold."""

    scope: str = declared(
        Choice(("cluster", "server"), (("node", "server"), ("single", "server"), ("world", "cluster"), ("all", "cluster"))),
        "cluster",
        "`cluster`: one job over all nodes, throughput summed over its ranks. `server`: every node trains alone, "
        "the mean over nodes counts. A script that makes worlds of its own, as AISBench's do with "
        '`env: {SINGLESERVER_MODE: "True"}`, is left to do so.',
    )
    metric: str = declared(Text(), "throughput", "The metric that the result is about: `throughput`, unless said otherwise.")
    warmup: int = declared(
        Count(0, 1_000_000),
        0,
        "How many first steps of `record.timer`, and first values that a pattern finds, are left out.",
    )
    repeats: int = declared(Count(1, MOST_REPEATS), 1, "How often the job is run.")
    combine: str = declared(
        Choice(("mean", "median", "olympic"), (("average", "mean"), ("avg", "mean"))),
        "mean",
        "How repeats make one value; `olympic` is the mean without the best and the worst.",
    )
    targets: dict[str, float] = declared(
        Table(Number(), sample="{accuracy: 0.76}"), {}, "Values that metrics must reach; the time to it is measured."
    )
    limits: dict[str, float] = declared(
        Table(Share(), ("ranks", "nodes", "repeats"), "{nodes: 5%}"),
        {},
        "How far ranks, nodes and repeats may lie apart: (max - min) / mean.",
    )
    idle: float = declared(Duration(zero=True), 0.0, "How long idle power is measured before the ranks start.")


# Metrics that are known without being declared; any other is reported by each rank, and the mean counts.
KNOWN = {
    "throughput": Metric(unit="samples/s", over="sum", take="mean", better="higher"),
    "accuracy": Metric(unit="1", of="world", better="higher"),
    "loss": Metric(unit="1", of="world", better="lower"),
    "eval_loss": Metric(unit="1", of="world", better="lower"),
}
BENCH = Section(Bench, "{scope: server, repeats: 3}")


@dataclass(frozen=True)
class Metrics(Table):
    """The metrics of a job, by name; fields of a known metric that are not given are those known."""

    kind: Kind = Fields(Metric, "{pattern: 'fps: ([0-9.]+)', unit: images/s}")
    sample: str = "{throughput: {pattern: 'fps: ([0-9.]+)'}}"
    words = "a mapping of metrics to their fields"

    def read(self, item: Item) -> dict[str, Metric]:
        return {name: replace(KNOWN.get(name, Metric()), **given) for name, given in super().read(item).items()}

"""The `:::MLLOG` lines that a script itself logged in a run, as one log.

Ranks that log the same count once: of each key the lines of the first rank that logged it are kept. Where a run has
several attempts, the first that began to train says what came before, and the last one what came of it.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from muster.bench.phases import moment, read_timeline
from muster.job import Job
from muster.metrics import log_numbers
from muster.metrics.observed import SKEW
from muster.metrics.rank_map import all_ranks
from muster.records import clocks
from muster.records.files import read_json
from muster.records.layout import AttemptDir, RunDir

BEGIN = "run_start"


@dataclass(frozen=True)
class Line:
    """One line of the script, without what a launcher wrote before it."""

    time_ms: float  # never earlier than that of a line before it: what a rank wrote stays in its order
    key: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class AttemptLog:
    """The lines that the ranks of one attempt logged, read anew for each reader: logs may be larger than memory."""

    logs: Mapping[int, str] = field(default_factory=dict)  # by rank
    began: float = -math.inf
    ahead: Mapping[int, float] = field(default_factory=dict)  # by rank, of its clock
    first_ranks: Mapping[str, int] = field(default_factory=dict)  # by key, the first rank that logged it

    def lines(self) -> Iterator[Line]:
        return heapq.merge(*map(self._kept, sorted(set(self.first_ranks.values()))), key=lambda line: line.time_ms)

    def _kept(self, rank: int) -> Iterator[Line]:
        return (line for line in self.of_rank(rank) if self.first_ranks.get(line.key) == rank)

    def of_rank(self, rank: int) -> Iterator[Line]:
        return _lines(self.logs[rank], self.began, self.ahead.get(rank, 0.0))


def read(run: RunDir) -> Callable[[], Iterator[Line]]:
    """Looks through the logs of a run; returns a function that goes through all that is kept of them, by time."""
    job = Job.from_json(read_json(run.job) or {})
    attempts = [_of_attempt(run, run.attempt(number), job) for number in run.attempt_numbers()] or [AttemptLog()]
    last = attempts[-1]
    began = next((attempt for attempt in attempts if BEGIN in attempt.first_ranks), last)
    return last.lines if began is last else partial(_joined, began, last)


def _of_attempt(run: RunDir, attempt: AttemptDir, job: Job) -> AttemptLog:
    started = read_timeline(run, attempt, job).started
    began = -math.inf if started is None else started - SKEW
    of_nodes = clocks.ahead(attempt)
    ahead = {rank.index: of_nodes[rank.node] for rank in all_ranks(job) if rank.node in of_nodes}
    found = AttemptLog(log_numbers.logs(attempt, job), began, ahead)
    first_ranks: dict[str, int] = {}
    for rank in sorted(found.logs):
        for line in found.of_rank(rank):
            first_ranks.setdefault(line.key, rank)
    return replace(found, first_ranks=first_ranks)


def _joined(began: AttemptLog, resumed: AttemptLog) -> Iterator[Line]:
    """The lines of one attempt until it began to train, then those of a later attempt from there on."""
    known: set[str] = set()
    latest = -math.inf
    for line in began.lines():
        known.add(line.key)
        latest = line.time_ms
        yield line
        if line.key == BEGIN:
            break
    trains = False
    for line in resumed.lines():
        if trains or line.key not in known:
            yield replace(line, time_ms=max(latest, line.time_ms))
        trains = trains or line.key == BEGIN


def _lines(path: str, began: float, ahead: float) -> Iterator[Line]:
    """The lines of one log; older ones are of another run, whose log the script prints again."""
    latest = -math.inf
    for event, text in log_numbers.events(path):
        time = moment(event.time_ms / 1000)
        if time is not None and time - ahead >= began:
            latest = max(latest, event.time_ms - 1000 * ahead)
            yield Line(latest, event.key, text)

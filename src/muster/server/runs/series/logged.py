"""Numbers that ranks wrote into their logs: matches of the patterns of the job, and `:::MLLOG` lines.

Another process reads them, a part at a time: what was read is kept, so that a log is read once, however often charts are asked
for. A pattern of a job, which anybody writes, costs a bounded time there and none here.
"""

import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.job import Job
from muster.metrics import log_numbers
from muster.metrics.log_numbers import Unread
from muster.metrics.observed import SKEW
from muster.records import clocks
from muster.records.layout import AttemptDir
from muster.server.runs.series.kept import Kept
from muster.server.runs.series.log_worker import Answer, Key, Log, Request
from muster.server.runs.series.thinned import some

RANKS = 32  # whose logs are read
ATTEMPTS = 16  # whose numbers are kept
WORKERS = 2  # at once
LIMIT = 30.0  # seconds for a turn, in which it needs a few; a machine may be busy
PAUSE = 0.5  # seconds between two turns for an attempt, at least as long as the last one took
FAILURES = 3  # turns that were killed, after which what was read has to do


@dataclass
class _Attempt:
    logs: dict[int, Log] = field(default_factory=dict)  # by rank
    names: set[Key] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)  # metrics whose patterns take too long
    failures: int = 0
    next: float = 0.0  # when the next turn may be
    turn: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Logged:
    by_rank: Mapping[int, Mapping[str, Kept]]  # by metric
    left_out: int = 0  # ranks whose logs are not read
    reading: bool = False  # true where there is more than was read so far


class LogNumbers:
    """The numbers in logs of the attempts that somebody looked at last."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()
        self._lock = threading.Lock()
        self._workers = threading.BoundedSemaphore(WORKERS)

    def of(self, attempt: AttemptDir, job: Job, start: float, ended: bool) -> Logged:
        """What is known of an attempt, after another turn of reading if there is more; `start` is when it began."""
        with self._lock:
            state = self._attempts.setdefault(attempt.path, _Attempt())
            self._attempts.move_to_end(attempt.path)
            while len(self._attempts) > ATTEMPTS:
                self._attempts.popitem(last=False)
        paths = log_numbers.logs(attempt, job)
        ranks = some(sorted(paths), RANKS)
        self._read_on(state, attempt, job, {rank: paths[rank] for rank in ranks}, start, ended)
        more = state.failures < FAILURES and any(_has_more(state.logs.get(rank), paths[rank], ended) for rank in ranks)
        found = {rank: _chosen(log) for rank, log in state.logs.items()}
        return Logged(found, len(paths) - len(ranks), more)

    def _read_on(
        self, state: _Attempt, attempt: AttemptDir, job: Job, paths: Mapping[int, str], start: float, ended: bool
    ) -> None:
        """Has a process read for a moment, unless one reads for this attempt already, or too many do."""
        if state.failures >= FAILURES or not state.turn.acquire(blocking=False):
            return
        try:
            if time.monotonic() >= state.next and self._workers.acquire(blocking=False):
                try:
                    self._turn(state, attempt, job, paths, start, ended)
                finally:
                    self._workers.release()
        finally:
            state.turn.release()

    def _turn(
        self, state: _Attempt, attempt: AttemptDir, job: Job, paths: Mapping[int, str], start: float, ended: bool
    ) -> None:
        request = _request(state, attempt, job, paths, start, ended)
        if not request.logs:
            return
        command, began = [sys.executable, "-m", "muster.server.runs.series.log_worker"], time.monotonic()
        try:
            done = subprocess.run(command, input=request.to_bytes(), capture_output=True, timeout=LIMIT, check=True)
            answer = Answer.from_bytes(done.stdout)
        except (subprocess.SubprocessError, OSError, ValueError):
            state.failures += 1
            return
        finally:
            state.next = time.monotonic() + max(PAUSE, time.monotonic() - began)
        state.given_up.update(answer.given_up)
        for log in answer.logs:
            before = state.logs.get(log.rank)
            known = dict(before.kept) if before else {}
            known.update({key: known.get(key, Kept()).followed(rest) for key, rest in log.kept.items()})
            state.names.update(known)
            state.logs = {**state.logs, log.rank: replace(log, kept=known)}  # those who look meanwhile see the one or the other


def _request(state: _Attempt, attempt: AttemptDir, job: Job, paths: Mapping[int, str], start: float, ended: bool) -> Request:
    ahead, logs = clocks.ahead(attempt), []
    for rank, path in paths.items():
        log = state.logs.get(rank)
        if _has_more(log, path, ended):
            since = start - SKEW + ahead.get(rank // max(1, job.ranks_per_node), 0.0)
            kept = {key: one.rest() for key, one in log.kept.items()} if log else {}
            logs.append(replace(log, kept=kept) if log else Log(rank, path, attempt.run.path, since))
    unread = Unread.from_final_record(attempt)
    skipped = {*state.given_up, *(unread.metrics if unread else ())}
    patterns = {name: metric.pattern for name, metric in job.metrics.items() if metric.pattern and name not in skipped}
    return Request(patterns, sorted(state.names), ended, logs)


def _has_more(log: Log | None, path: str, ended: bool) -> bool:
    """True if a log has bytes that were not read."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return False
    if log is None:
        return size > 0
    return size > log.size or (ended and log.offset < size)


def _chosen(log: Log) -> dict[str, Kept]:
    """The numbers of a rank by metric: those of events before those of patterns, as results have them."""
    return {name: kept for source in ("pattern", "mllog") for (of, name), kept in log.kept.items() if of == source}

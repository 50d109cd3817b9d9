"""Reads a public trace of a cluster, so that its jobs can be replayed: when each was submitted, how long it ran, on how much.

The trace is a CSV file with the columns `timestamp`, `duration` (seconds), `num_gpus` and `cluster`: the extract of
Microsoft's Philly trace (msr-fiddle/philly-traces) that comes with the simulators of Pollux and ElasticFlow. It is no part of
Muster.
"""

import csv
import random
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

from muster.server.runs.scheduling.model import Demand
from queue_states import EIGHT, Job, limit_of

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
KIND = "nvidia"
PREEMPTIBLE = 0.2  # share of the jobs: the trace does not say


class NoTrace(Exception):
    """A file that is no such trace."""


def read(path: Path, begin: str | None, days: float, seed: int) -> list[Job]:
    """The jobs that were submitted in so many days, from a date on or from the first one. Raises NoTrace.

    The trace has neither time limits nor preemptible jobs: both are drawn, as for a generated month. Its virtual clusters are
    projects, of one user each. Jobs for more devices than a node has get nodes as equal as can be.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = sorted((_moment(row[COLUMNS[0]]), *_numbers(row), row[COLUMNS[3]]) for row in csv.DictReader(file))
        first = rows[0][0] if begin is None else _moment(begin)
    except (OSError, UnicodeError, csv.Error, KeyError, TypeError, ValueError, IndexError) as error:
        raise NoTrace(f"{path} is no trace with {', '.join(COLUMNS)}: {type(error).__name__}: {error}") from None
    draw = random.Random(seed)
    found = [row for row in rows if first <= row[0] < first + days * 86400]
    if not found:
        raise NoTrace(f"{path} has no job in these {days:g} days")
    return [
        Job(
            number, moment - first, seconds, limit_of(draw, seconds), _demand(devices), cluster, cluster,
            draw.random() < PREEMPTIBLE,
        )
        for number, (moment, seconds, devices, cluster) in enumerate(found)
    ]  # fmt: skip


def nodes_for(jobs: list[Job], days: float, load: float) -> int:
    """So many nodes of eight devices that the work of the jobs is this share of what they can do."""
    work = sum(job.demand.total * job.seconds for job in jobs)
    return max(ceil(work / (load * days * 86400 * len(EIGHT))), *(job.demand.nodes for job in jobs))


def _demand(devices: int) -> Demand:
    many = ceil(devices / len(EIGHT))
    return Demand(many, KIND, ceil(devices / many))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _numbers(row: dict[str, str]) -> tuple[float, int]:
    seconds, devices = float(row[COLUMNS[1]]), int(row[COLUMNS[2]])
    if not (0 < seconds < 1e9 and 0 < devices < 1e5):
        raise ValueError(f"{seconds:g} s on {devices} devices")
    return seconds, devices

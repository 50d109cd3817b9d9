"""For how long the devices of a run have been idle, from the samples that its nodes write, which are hostile."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.records.layout import RunDir
from muster.records.untrusted import number, open_regular, parse_json

BUSY = 5.0  # percent of use from which on a device is not idle
FIRST, LATER = 8 << 20, 1 << 20  # bytes that are read of a node's samples, from their end
MOST_NODES = 4096
DAY = 86400.0


@dataclass(frozen=True)
class Sample:
    """The use of the busiest device of a node at one moment, in percent."""

    time: float
    busiest: float


@dataclass(frozen=True)
class Idle:
    """Since when the devices of a node are idle, and until when that is known, by the node's own clock."""

    since: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.since


def continued(before: Idle | None, samples: Sequence[Sample]) -> Idle | None:
    """What is known after more samples; None as long as there are none. A gap that was not sampled was not idle."""
    found = before
    for sample in samples:
        if found is not None and sample.time <= found.until:
            continue
        begins = found is None or sample is samples[0] or sample.busiest >= BUSY
        found = Idle(sample.time if begins or found is None else found.since, sample.time)
    return found


def idle_seconds(nodes: Iterable[Idle | None]) -> float | None:
    """For how long all devices of all nodes have been idle; None where that is not known of one of them."""
    shortest: float | None = None
    for node in nodes:
        if node is None:
            return None
        shortest = node.seconds if shortest is None else min(shortest, node.seconds)
    return shortest


class RunSamples:
    """Reads the samples of a run again and again, each time what its nodes have written lately."""

    def __init__(self) -> None:
        self._attempt = -1
        self._nodes: dict[int, Idle | None] = {}

    def idle(self, run: RunDir, now: float) -> float | None:
        """For how long the devices of the last attempt have been idle; None where they are not sampled."""
        attempt = run.last_attempt()
        if attempt is None:
            return None
        if attempt.number != self._attempt:
            self._attempt, self._nodes = attempt.number, {}
        for index in attempt.node_indexes()[:MOST_NODES]:
            before = self._nodes.get(index)
            found = tail(attempt.node(index).metrics, run.path, LATER if before else FIRST, now)
            self._nodes[index] = continued(before, found)
        return idle_seconds(self._nodes.values())


def tail(path: str, below: str, most: int, now: float) -> list[Sample]:
    """The samples at the end of a file; none where it cannot be read, or nothing in it is a sample of devices."""
    try:
        with open_regular(path, below) as file:
            begin = max(0, os.fstat(file.fileno()).st_size - most)
            file.seek(begin)
            lines = file.read(most).split(b"\n")[1 if begin else 0 : -1]  # the first and the last may be parts
    except OSError:
        return []
    return [found for line in lines if (found := _sample(line, now)) is not None]


def _sample(line: bytes, now: float) -> Sample | None:
    if b'"devices"' not in line:
        return None
    try:
        data = parse_json(line)
    except ValueError:
        return None
    devices = data.get("devices") if isinstance(data, dict) else None
    time = number(data.get("t")) if isinstance(data, dict) else None
    if not isinstance(devices, dict) or not devices or time is None or not 0 < time < now + DAY:
        return None
    uses = [number(one.get("util")) if isinstance(one, dict) else None for one in devices.values()]
    known = [use for use in uses if use is not None and math.isfinite(use)]
    return Sample(time, max(known)) if len(known) == len(uses) else None

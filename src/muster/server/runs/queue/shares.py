"""How much of the devices projects have used, where what is long ago counts less: the order of the queue reads it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HALF_LIFE = 7 * 86400.0
_SCALE = HALF_LIFE / math.log(2)
Key = tuple[str, str]  # project, kind of device


@dataclass(frozen=True, slots=True)
class Held:
    """Devices that a run holds or held."""

    project: str
    kind: str
    devices: int
    started: float


def decayed(devices: int, started: float, ended: float, now: float) -> float:
    """Device-seconds from `started` to `ended`, each second halved for every half-life that has passed since."""
    ended = min(ended, now)
    if started >= ended:
        return 0.0
    return devices * _SCALE * (math.exp((ended - now) / _SCALE) - math.exp((started - now) / _SCALE))


class Shares:
    """The use of projects: what has ended is one number for each, what goes on is added when it is asked for."""

    def __init__(self, now: float) -> None:
        self._at = now
        self._settled: dict[Key, float] = {}

    def settle(self, held: Held, ended: float, now: float) -> None:
        """Adds what a run has used that holds its devices no more."""
        self._move(now)
        key = (held.project, held.kind)
        self._settled[key] = self._settled.get(key, 0.0) + decayed(held.devices, held.started, ended, now)

    def rename(self, names: Mapping[str, str]) -> None:
        """Keeps the use of projects that have other names from now on."""
        self._settled = {(names.get(project, project), kind): used for (project, kind), used in self._settled.items()}

    def used(self, going_on: Iterable[Held], now: float) -> Mapping[Key, float]:
        self._move(now)
        found = dict(self._settled)
        for held in going_on:
            key = (held.project, held.kind)
            found[key] = found.get(key, 0.0) + decayed(held.devices, held.started, now, now)
        return found

    def _move(self, now: float) -> None:
        """Lets time pass; a clock that was set back changes nothing."""
        if now > self._at:
            factor = math.exp((self._at - now) / _SCALE)
            self._settled = {key: value * factor for key, value in self._settled.items()}
            self._at = now

"""How often things are read: each at every tick, less often where it costs too much, and rarely where it fails."""

from __future__ import annotations

import time
from typing import Any, Callable

from muster.devices import Unmeasured

ALLOWANCE = 0.0015  # seconds of CPU that one source may take at a tick, unless another is given
WEIGHT = 0.2  # of the last reading in what one is thought to cost
RARELY = 60.0  # seconds until something that failed is tried again

Read = Callable[[float], dict[str, Any]]
Note = Callable[[str, str], None]


class Source:
    """Something that is read in the sampler's own thread."""

    def __init__(self, name: str, read: Read, note: Note, allowance: float = ALLOWANCE) -> None:
        self._name = name
        self._read = read
        self._note = note
        self._allowance = allowance
        self._cost = 0.0
        self._skip = 0
        self._rest = 0.0  # until when it is left alone

    def take(self, moment: float) -> dict[str, Any]:
        """What it shows now; nothing where it is not its turn."""
        if self._skip > 0:
            self._skip -= 1
            return {}
        return self.read(moment)

    def read(self, moment: float) -> dict[str, Any]:
        """What it shows now, whatever that costs; nothing where it failed a short time ago."""
        if moment < self._rest:
            return {}
        began = time.thread_time()
        try:
            found = self._read(moment)
        except Exception as error:  # whatever happens in here is no concern of the ranks
            self._note(self._name, why(error))
            self._rest = moment + RARELY
            return {}
        cost = time.thread_time() - began
        self._cost += WEIGHT * (cost - self._cost)
        self._skip = int(self._cost / self._allowance)
        return found


def why(error: Exception) -> str:
    """An error as a reason."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return where + error.strerror.lower()
    return str(error) if isinstance(error, Unmeasured) else f"{type(error).__name__}: {error}"

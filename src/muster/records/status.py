"""What an engine says about a run."""

from __future__ import annotations

from muster.dataclass import dataclass


@dataclass(frozen=True)
class EngineLog:
    """A file in run directories to which an engine's own programs write."""

    name: str
    daemon: str  # how the lines of its daemons begin, which say no more than its Status


@dataclass(frozen=True)
class Status:
    """The answer of an engine about a run: whether its supervisor lives or will, and a reason in the engine's words.

    `state` is what an engine knows better than the files: `pending` while the run waits for its nodes, also again, and
    how a run ended whose supervisor could not say so: `stopped`, `failed` or `lost`.
    """

    alive: bool
    reason: str = ""
    state: str = ""
    time: float = 0.0  # of the answer, where it may be older than the files
    settling: bool = False  # whether nothing of it runs any more, and only its last files may still be on their way
    halted: str = ""  # why its supervisor does not act although it is alive, and what to do
    interrupted: bool = False  # whether a machine or a preemption ended it for good, and it could be submitted again
    preempted: bool = False  # whether it has left its devices on request, and waits until it is continued
    survivors: bool = False  # whether its ranks go on without a supervisor: another one has to end them
    log: EngineLog | None = None  # where the reason may be of an end that the engine cannot explain

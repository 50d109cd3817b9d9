"""What an engine is: it takes an order, shows exactly what it would submit, submits it, and answers for many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from muster.job import Job
from muster.records.state import Status


class EngineError(Exception):
    """An engine that cannot be used or reached; the text says what to do."""


class Refused(Exception):
    """A run that an engine does not take; the text says why and what to do."""


@dataclass(frozen=True)
class Order:
    """A run to be started: where its directory, its code and the agent lie."""

    run_dir: str
    code: str
    agent: str
    namespaces: bool = True


@dataclass(frozen=True)
class Request:
    """Exactly what is submitted. The environment holds secrets and is never shown."""

    argv: tuple[str, ...]
    cwd: str
    log: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    script: str = ""  # what the program is given to read, where that says it all


@dataclass(frozen=True)
class Node:
    """A machine that an engine can use."""

    name: str
    cpus: int
    memory: int
    device: str
    devices: tuple[str, ...]


class Engine(Protocol):
    name: str
    lasting: bool  # whether a run goes on when the command that started it is gone

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        """The job with what only the engine can decide, such as what `device: auto` means; `say` hears of doubts.

        It decides about `ssh`, too, where the job says nothing: on real machines a door that only the site may open.
        """

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        """What of a job this engine can never do: field, message, hint."""

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        """What would be submitted."""

    def submit(self, request: Request, follower: int | None) -> str:
        """Submits; `follower` is a descriptor that ends when the run should. Returns the engine's own handle."""

    def submit_again(self, script: str, environment: Mapping[str, str]) -> str:
        """Submits what was submitted before, for a run whose `Status` said that it was interrupted."""

    def find(self, run_dir: str) -> str | None:
        """The handle of a run whose submitter died before writing it down."""

    def poll(self, handles: Iterable[str]) -> dict[str, Status]:
        """Whether the runs are alive, many at once."""

    def cancel(self, handle: str) -> None:
        """Ends a run that does not listen to requests in its directory."""

    def withdraw(self, handle: str) -> None:
        """Takes a run out of the queue, unless its supervisor has begun meanwhile and can be asked."""

    def sweep(self, run_id: str) -> None:
        """Removes whatever is left running of a run that was lost."""

    def capacity(self) -> list[Node]:
        """The machines of this engine."""

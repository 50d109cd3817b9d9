"""A run, wherever it is, as commands and programs see it. `Run` is one of this machine, `RemoteRun` one of a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from muster.job import Job
from muster.launch import names
from muster.records.run_view import AttemptOutcome, RunView

if TYPE_CHECKING:  # what is not needed to start a run is imported where it is used: while the run starts
    from muster.launch.follow import AnyFollower, Chunk, Start, Wanted
    from muster.records.endpoints import EndpointView
    from muster.records.ranks import RankView

GOES_ON = "it goes on"
POLL = 1.0  # seconds between two questions whether a run is still alive


class AnyRun(ABC):
    """One run. Every property reads it anew."""

    id: str
    asked: str = "its engine"  # who is asked about it
    trouble: str = ""  # why its engine or server could not be asked the last time, if it could not

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _repr_html_(self) -> str:
        """Shows the run in a notebook: state, reason, curves, last lines."""
        from muster.launch.notebook import html

        return html(self)

    @abstractmethod
    def endpoints(self) -> list[EndpointView]:
        """What of the run people can reach, and how it stands."""

    @property
    @abstractmethod
    def view(self) -> RunView:
        """Everything about the run as it stands."""

    @property
    def state(self) -> str:
        return self.view.state.value

    @property
    def reason(self) -> str:
        return self.view.reason

    @property
    def result(self) -> dict[str, Any] | None:
        """The numbers that its ranks recorded, or None."""
        return self.view.result

    @property
    def warnings(self) -> list[str]:
        """Warnings about the run, also if it succeeded."""
        return list(self.view.warnings)

    @property
    def ended(self) -> bool:
        return self.view.state.ended

    @property
    def halted(self) -> str:
        """Why its supervisor did not act when its engine was asked the last time, such as that it is stopped."""
        return ""

    @property
    @abstractmethod
    def job(self) -> Job:
        """The job as it was recorded. Raises Damaged."""

    @property
    @abstractmethod
    def handle(self) -> str | None:
        """The engine's handle of the run, such as the number of its batch job; None while it is not recorded."""

    @abstractmethod
    def peek(self) -> RunView:
        """The run as it was last seen, without asking its engine or its server."""

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """Everything about the run: its view, and each attempt with its nodes and ranks; only the view of a damaged one."""

    def ranks(self, attempt: int | None = None) -> list[dict[str, Any]]:
        """The processes of an attempt (the last one) with their states, exit codes and times."""
        return [rank.to_json() for rank in self.processes(attempt)]

    @abstractmethod
    def processes(self, attempt: int | None = None) -> list[RankView]:
        """The same as objects. Raises Damaged."""

    @abstractmethod
    def hosts(self) -> dict[int, str]:
        """The host names of nodes, where these are machines."""

    @abstractmethod
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """What rank 0 recorded in the course of the last attempt, by metric: steps (or seconds) and values.

        A server sends at most some hundreds of points of each metric: the means of neighbours.
        """

    def attempts(self) -> list[dict[str, Any]]:
        """The attempts so far, each with its state, reason and times. Raises Damaged."""
        return [attempt.to_json() for attempt in self.outcomes()]

    @abstractmethod
    def outcomes(self) -> list[AttemptOutcome]:
        """The same as objects. Raises Damaged."""

    @abstractmethod
    def attempt_numbers(self) -> list[int]:
        """The numbers of the attempts that have begun."""

    @abstractmethod
    def submissions(self) -> list[dict[str, Any]]:
        """How often it was submitted again after a job of it was ended for good: when, as what, and why."""

    @abstractmethod
    def place(self) -> tuple[str, str] | None:
        """The name and the value of what identifies it where it runs, such as the number of its batch job."""

    def origin(self) -> tuple[str, str] | None:
        """The words `clone of` and what it was cloned from with what differs, where a server knows that."""
        return None

    @property
    def option(self) -> str:
        """What a command needs besides the id to find it: of a run of a server which the settings do not name, ` --server`."""
        return ""

    def deleted_logs(self) -> str:
        """Says that its logs were deleted by a server, and when; empty where they were not."""
        return ""

    @abstractmethod
    def exposed_keys(self) -> str | None:
        """Warns that the program can read the keys of the run; empty where it cannot, None while that is not known yet."""

    @abstractmethod
    def node_events(self) -> list[dict[str, Any]] | None:
        """How its nodes are kept apart, once that is known; None where it is never known here."""

    @abstractmethod
    def wait(self, timeout: float | None = None, say: Callable[[str], None] = lambda text: None) -> str:
        """Waits for the end; returns the state, which is not an end when the time was up first.

        `say` is called when its supervisor stands still or its engine or server does not answer, and when that is over.
        """

    @abstractmethod
    def stop(
        self,
        now: bool = False,
        reason: str = "stopped by the user",
        wait: bool = True,
        say: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Asks the run to stop: ranks get the job's grace, or none with `now`. `say` is called as by `wait`."""

    @abstractmethod
    def ask_to_stop(self, now: bool, reason: str) -> None:
        """Leaves the request, and nothing else: a signal handler may call it at any moment."""

    @property
    @abstractmethod
    def listening(self) -> bool:
        """True if a supervisor elsewhere seems to be at work, by what is known here: it can be asked without its engine."""

    @abstractmethod
    def seen_to_end(self) -> bool:
        """True if the run has ended; false also while its engine or server is out of reach."""

    @abstractmethod
    def rerun(self, set: Sequence[str] = ()) -> AnyRun:
        """Starts the same job again, with the code as it was recorded."""

    @abstractmethod
    def remove(self) -> None:
        """Deletes the record of a run that has ended."""

    def logs(self, rank: int | None = None, process: str | None = None, attempt: int | None = None) -> Iterator[bytes]:
        """The log of one process (rank 0 unless said otherwise) as it stands, in pieces."""
        name = self.log_name(rank, process) or "rank-0"
        number = self._attempt(attempt) or (self.attempt_numbers() or [0])[-1]
        with self.follower(lambda found, log: found == number and log == name) as follower:
            yield from (chunk.data for chunk in follower.chunks())

    def follow(self, rank: int | None = None, process: str | None = None, attempt: int | None = None) -> Iterator[Chunk]:
        """Yields the output of the processes, in pieces and until the run ends: of all, or of the one that is named."""
        name, number = self.log_name(rank, process), self._attempt(attempt)
        wanted: Wanted = lambda found, log: number in (None, found) and name in (None, log)  # noqa: E731
        with self.follower(wanted, number, process=name) as follower:
            yield from (chunk for chunk in self.pieces(follower) if chunk is not None)

    def log_name(self, rank: int | None = None, process: str | None = None) -> str | None:
        """The name of the log that a rank or a process writes, None for no choice. Raises RunNotFound."""
        if process is not None:
            return names.process_log(self.id, self.job, process, self.log_names())
        return names.rank_log(self.id, self.job, rank) if rank is not None else None

    def log_names(self) -> list[str]:
        """The names of all logs that were written so far."""
        with self.follower(lambda attempt, process: True) as follower:
            return follower.names()

    @abstractmethod
    def follower(
        self, wanted: Wanted, only: int | None = None, start: Start | None = None, process: str | None = None
    ) -> AnyFollower:
        """A reader of its logs.

        `wanted` picks by attempt and process; `only` is the one attempt to follow, if it is one, and `process` the one
        process; `start` says where a log begins.
        """

    @abstractmethod
    def pieces(self, follower: Any, tick: float = POLL) -> Iterator[Chunk | None]:
        """Yields what its follower finds, until the run ends; None whenever nothing came for a while."""

    def _attempt(self, attempt: int | None) -> int | None:
        """An attempt that the run has, or None for no choice. Raises RunNotFound."""
        return None if attempt is None else names.attempt_number(self.id, self.attempt_numbers(), attempt)

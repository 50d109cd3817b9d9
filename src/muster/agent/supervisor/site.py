"""The interface between a supervisor and the machines of its run, or the batch system that gives them."""

from __future__ import annotations

from dataclasses import dataclass

from muster.agent.tools import Tools
from muster.channel.base import SupervisorChannel
from muster.channel.directory import DirectorySupervisor
from muster.job import Job
from muster.records.files import need_json
from muster.records.layout import AttemptDir, RunDir


@dataclass(frozen=True)
class Assignment:
    """The job that a supervisor and its agents carry out, its code and their tools."""

    run: RunDir
    job: Job
    code: str
    tools: Tools
    namespaces: bool  # whether nodes may be namespaces

    @classmethod
    def read(cls, path: str, code: str, tools: Tools, namespaces: bool) -> Assignment:
        run = RunDir(path)
        return cls(run, Job.from_json(need_json(run.job)), code, tools, namespaces)

    @property
    def count(self) -> int:
        return self.job.nodes + self.job.ps


@dataclass(frozen=True)
class Farewell:
    """Why this supervisor got a signal to end, and how long ranks may go on."""

    cause: str  # `terminated` and `preempted` are not the end of a run whose site starts it again
    reason: str
    seconds: float | None = None  # None: as long as the job's grace


@dataclass(frozen=True)
class Verdict:
    """Why an attempt ended, where its site knows better than its agents."""

    cause: str  # `lost`: machines are gone, which is no failure of the program
    reason: str


@dataclass(frozen=True)
class Cut:
    """An attempt that was cut off with its supervisor: why, and until when something was heard of it."""

    reason: str
    until: float | None = None


class Site:
    """The machines of a run. A site says only where it differs."""

    starts_again = False  # whether a batch system starts an ended supervisor again, and alone knows why it had to end
    pause: float | None = None  # between two looks at what causes no event
    reason = ""  # what is in the way while `ready` is false
    deadline: float | None = None  # by the monotonic clock; the supervisor keeps it, and agents of its machine in its stead

    def enter(self) -> bool:
        """Whether this supervisor is the one that the run goes on with."""
        return True

    def ready(self) -> bool:
        """Whether attempts can be started."""
        return True

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `ready` may have changed."""
        return []

    def channel(self, assignment: Assignment, attempt: AttemptDir) -> SupervisorChannel:
        """The channel to the nodes of an attempt."""
        return DirectorySupervisor(assignment.run, attempt, assignment.count)

    def start(self, attempt: AttemptDir) -> dict[int, tuple[int, ...]]:
        """Starts the agents of an attempt; returns their launchers, which are child processes, each with its nodes."""
        raise NotImplementedError

    def gone(self, attempt: AttemptDir, channel: SupervisorChannel) -> dict[int, str]:
        """Nodes that exited while their launcher still runs, each with how."""
        return {}

    def last_words(self, attempt: AttemptDir, node: int, status: int) -> str:
        """How a node ended that left no record of it, from the status of its launcher."""
        raise NotImplementedError

    def kill(self, pid: int) -> None:
        """Kills a launcher and its nodes."""
        raise NotImplementedError

    def sweep(self, attempt: AttemptDir) -> None:
        """Leaves nothing of an attempt running."""

    def farewell(self, signal: str) -> Farewell:
        """The meaning of a signal to the supervisor."""
        return Farewell("terminated", f"the supervisor was told to end ({signal})")

    def leave(self, cause: str, reason: str) -> None:
        """Hands the run back to the site, which starts it again or knows why not."""

    def verdict(self, attempt: AttemptDir) -> Verdict | None:
        """Why an attempt lost nodes; None where it was only their agents."""
        return None

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        """Why an attempt was cut off, as far as that can be known when the supervisor is started again."""
        return Cut("its supervisor was cut off")

    def close(self) -> None:
        """Gives back what the site holds."""

"""The interface of a site: it starts the nodes of a run for a supervisor, and reports those that have ended."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from muster.agent.tools import Tools
from muster.channel.base import SupervisorChannel
from muster.channel.directory import DirectorySupervisor
from muster.dataclass import dataclass
from muster.job import Job
from muster.records.files import need_json
from muster.records.layout import AttemptDir, RunDir
from muster.records.logs import last_lines
from muster.records.run_view import Cause, Stop
from muster.records.text.units import signal_name

if TYPE_CHECKING:
    from muster.linux.accounts import Account

DISK_FULL = 74  # the exit code of an agent that cannot write any more


@dataclass(frozen=True)
class Assignment:
    """The run of a supervisor and its agents, with its job, its code and the tools to start helpers with."""

    run: RunDir
    job: Job
    code: str
    tools: Tools
    namespaces: bool  # whether nodes may be namespaces
    account: Account | None = None  # whose processes agents and ranks are, where not the supervisor's user's

    @classmethod
    def read(cls, path: str, given: Mapping[str, str]) -> Assignment:
        """Reads the job of a run; `given` are the arguments of this program."""
        run, tools = RunDir(path), Tools(given["--python"], sys.argv[0])
        job, namespaces = Job.from_json(need_json(run.job)), given.get("--namespaces") != "off"
        if "--account" not in given:
            return cls(run, job, given["--code"], tools, namespaces)
        from muster.linux.accounts import Account

        return cls(run, job, given["--code"], tools, namespaces, Account.from_text(given["--account"]))

    @property
    def count(self) -> int:
        return self.job.nodes + self.job.ps


class NotReady(Exception):
    """Why no attempt can be started, now or later."""


@dataclass(frozen=True)
class NodeEnded:
    """A node that has ended."""

    node: int
    lost: str = ""  # how, where it left no record of its end


@dataclass(frozen=True)
class Cut:
    """Why an attempt was cut off, where its site knows more than its agents, and when it last showed a sign of life."""

    reason: str
    cause: Cause = Cause.LOST  # machines are gone, which is no failure of the program
    until: float | None = None

    def to_json(self) -> dict[str, Any]:
        until = {"until": self.until} if self.until else {}
        return {"cause": self.cause.value, "reason": self.reason, **until}


class Site:
    """The nodes of a run. Methods with a body are those that a site may leave out."""

    starts_again = False  # whether a batch system starts a supervisor again that it has ended
    nodes_return = False  # whether nodes that were lost can be used again by this supervisor
    first_attempt = 1  # its number
    queues = False  # whether each attempt waits until it is ready, and not the first alone
    arbiter: Any = None  # the class that decides what is announced, where it is not Arbiter
    pause: float | None = None  # seconds between two calls of `ended` where no descriptor or signal announces all events
    reason = ""  # what is in the way while `ready` is false
    deadline: float | None = None  # by the monotonic clock; the supervisor keeps it, and agents of its machine in its stead

    def enter(self) -> bool:
        """True if this supervisor continues the run; false where another one does."""
        return True

    def ready(self) -> bool:
        """True if attempts can be started. Raises NotReady."""
        return True

    def filenos(self) -> list[int]:
        """Descriptors that become readable when `ready` may have changed or a node may have ended; SIGCHLD needs none."""
        return []

    def channel(self, assignment: Assignment, attempt: AttemptDir) -> SupervisorChannel:
        """The channel to the nodes of an attempt."""
        channel = DirectorySupervisor(assignment.run, attempt, assignment.count)
        if assignment.account is not None:
            from muster.agent.sandbox import account_view

            account_view.open_attempt(attempt, assignment.account, assignment.job.has_keys)
        return channel

    def resume(self, attempt: AttemptDir) -> bool:
        """True if the agents of an attempt that an earlier supervisor began go on under this one."""
        return False

    def start(self, attempt: AttemptDir) -> None:
        """Starts the agents of an attempt."""
        raise NotImplementedError

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        """The nodes that have ended since the last call; each is reported once."""
        raise NotImplementedError

    def kill(self, nodes: Collection[int]) -> None:
        """Kills nodes at once. A site that cannot kill single nodes waits until it may kill all that are left."""
        raise NotImplementedError

    def sweep(self, attempt: AttemptDir) -> None:
        """Leaves nothing of an attempt running."""

    def farewell(self, signal: str) -> Stop:
        """Returns why the supervisor was signalled, and how long ranks may go on, the job's grace at most.

        `terminated` and `preempted` are not the end of a run whose site starts it again.
        """
        return Stop(Cause.TERMINATED, f"the supervisor was told to end ({signal})", math.inf)

    def leave(self, cause: Cause, reason: str) -> None:
        """Called before the supervisor of a run that was interrupted ends, for the site to have it started again."""

    def verdict(self, attempt: AttemptDir) -> Cut | None:
        """Why an attempt ended that has lost nodes; None where only their agents failed."""
        return None

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        """Why an attempt was cut off, as known when the supervisor is started again."""
        return Cut("its supervisor was cut off")

    def close(self, keep: bool = False) -> None:
        """Gives back what the site holds; with `keep` not what ranks share, because the run continues later."""


def how_agent_ended(attempt: AttemptDir, node: int, status: int) -> str:
    """How an agent ended that left no record of its end; `status` is that of wait."""
    if os.WIFSIGNALED(status):
        return f"was killed ({signal_name(os.WTERMSIG(status))})"
    if os.WEXITSTATUS(status) == DISK_FULL:
        return "ended, because no space is left on its disk; free some, and run the job again"
    said = last_lines(attempt.node(node).agent_log, 1) or ["it left no word"]
    return f"failed (code {os.WEXITSTATUS(status)}): {said[0]}"

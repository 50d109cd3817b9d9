"""The interface of an engine: it shows exactly what it would submit, submits it, and reports on many runs at once."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from muster import config
from muster.dataclass import dataclass, field
from muster.engines import EngineError, Refused
from muster.job import Job
from muster.linux import listeners, nsenter
from muster.records.status import Status

if TYPE_CHECKING:
    from muster.engines.carriers import Carriers
    from muster.linux.accounts import Account

__all__ = ["Beside", "Capacity", "Engine", "EngineError", "Order", "Place", "Refused", "Request"]


@dataclass(frozen=True)
class Order:
    """A run to be started: the paths of its directory, its code and the agent."""

    run_dir: str
    code: str
    agent: str


@dataclass(frozen=True)
class Request:
    """Exactly what is submitted. The environment holds secrets and is never shown."""

    argv: tuple[str, ...] = ()
    cwd: str = "/"
    log: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    script: str = ""  # for an engine that takes scripts: with it alone, a run that was interrupted is submitted again
    shown: str = ""  # the request to a service that follows from it, for people


@dataclass(frozen=True)
class Beside:
    """A command that is to run beside a process of a run."""

    run_id: str
    job: Job
    node: int
    pid: int  # of the process, on the machine of its node
    words: tuple[str, ...]
    collected: bool  # whether its output is returned, and not written to this process' own
    agent: Callable[[], str]  # returns the path of the packed agent


@dataclass(frozen=True)
class Place:
    """A node of a run that goes on."""

    run_id: str
    job: Job
    node: int
    handle: str  # of the run, in the engine's own words
    agent: Callable[[], str]  # returns the path of the packed agent


@dataclass(frozen=True)
class Capacity:
    """A part of the resources of an engine, as `muster doctor` shows it."""

    words: str
    details: dict[str, Any] | None = None  # the figures behind the words


class Engine:
    """One engine, with the settings of a home. Methods with a body here are those that an engine may leave out."""

    name: str
    shares_files = True  # whether nodes see the files of this machine: a job's Python, its data, the embedded store
    moves_data = False  # whether data of this machine is brought to nodes that do not see its files, whatever the program gets
    lasting: bool  # whether a run goes on when the command that started it is gone
    continues = False  # whether a run can leave its devices on request and be continued; a batch system does that itself
    takes_accounts = False  # whether root can have the nodes of a run be processes of another user

    def __init__(
        self,
        home: str,
        settings: config.Config | None = None,
        agent: Callable[[], bytes] | None = None,
        account: Account | None = None,
    ) -> None:
        """`agent` gives the packed agent to an engine that sends it to machines before a run is submitted.

        `account` is the user whose processes the ranks are. Raises EngineError where this engine takes none.
        """
        if account is not None and not self.takes_accounts:
            raise EngineError(f"the engine {self.name} cannot start a run as another user")
        self.home = home
        self.account = account
        self._given = settings
        self._agent = agent

    @cached_property
    def settings(self) -> config.Config:
        """The given settings, else those of the home, which are read when they are first needed."""
        return config.load(self.home) if self._given is None else self._given

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        """The job with what only the engine can decide: the meaning of `device: auto`, and `ssh` where the job does not set it.

        `say` is called with warnings.
        """
        raise NotImplementedError

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        """Lists what a job asks for that this engine can never do: field, message, hint."""
        raise NotImplementedError

    def examine(self, job: Job, code: int, say: Callable[[str], None]) -> list[tuple[str, str, str]]:
        """Asks the machines of a job what they lack for it and for `code` bytes of code: field, message, hint.

        `say` is called with warnings.
        """
        return []

    def refused_code(self, size: int, files: int) -> list[tuple[str, str, str]]:
        """Finds what is wrong with code of so many bytes and files: field, message, hint."""
        return []

    def admit(self, job: Job, say: Callable[[str], None]) -> list[tuple[str, str, str]]:
        """Asks a service what it would refuse of a job: field, message, hint. Raises EngineError where it does not answer."""
        return []

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        """Returns exactly what would be submitted."""
        raise NotImplementedError

    def show(self, job: Job, order: Order) -> str:
        """The request to a service that the run's supervisor makes, for people; empty where there is none."""
        return ""

    def submit(self, request: Request, follower: int | None = None) -> str:
        """Submits; `follower` is a descriptor that is closed when the run should end. Returns the engine's own handle."""
        raise NotImplementedError

    def find(self, run_dir: str) -> str | None:
        """The handle of a run whose submitter died before it was recorded."""
        raise NotImplementedError

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        """Returns the status of many runs, by their handles."""
        raise NotImplementedError

    def cancel(self, handle: str, queued_only: bool = False) -> None:
        """Ends a run that does not respond to requests in its directory; with `queued_only`, unless it has started."""
        raise NotImplementedError

    def sweep(self, run_id: str) -> None:
        """Kills what is left running of a run whose supervisor is gone."""

    def capacity(self) -> list[Capacity]:
        """Lists the resources of the engine; none where it is not installed here."""
        return []

    def identity(self, handle: str) -> tuple[str, str] | None:
        """Returns the label and the name of a run in the engine's own tools; None where it has no such tools."""
        return None

    def remote_shell(self, job: Job, handle: str, node: int) -> str:
        """Returns the command that opens a shell on a node of a run; nothing where `execute` reaches its nodes."""
        return ""

    def execute(self, command: Beside) -> tuple[int, str]:
        """Runs a command beside a process; returns its exit code and its output, if it is collected. Raises NotStarted."""
        return nsenter.run(command.pid, command.words, subprocess.PIPE if command.collected else None)

    def open_connection(self, place: Place, port: int, carriers: Carriers) -> socket.socket:
        """Connects to a port of a node at which a program of the run's user listens.

        Raises EngineError, and OSError where nothing listens; over `carriers` such a connection ends at once instead.
        """
        users = frozenset((os.getuid() if self.account is None else self.account.uid,))
        return listeners.connect(port, users)

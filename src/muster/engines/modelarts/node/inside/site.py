"""The site of the supervisor inside a job: its hosts are the workers, which a program of Muster's own reaches, not ssh."""

from __future__ import annotations

import signal
from typing import NoReturn

from muster.agent.supervisor.site import Assignment
from muster.dataclass import dataclass
from muster.engines.ssh.node.connection import LONGEST, Host, Unreachable
from muster.engines.ssh.node.link import Link
from muster.engines.ssh.node.site import SshSite
from muster.records.files import Events
from muster.records.run_view import Cause, Stop
from muster.records.untrusted import printable

FAREWELL = 20.0  # seconds for ranks, at most, of about 30 that there are


@dataclass(frozen=True)
class WorkerHost(Host):
    """A worker; `words` are those of the program that reaches it."""

    words: tuple[str, ...] = ()

    def argv(self, command: str, terminal: bool = False) -> list[str]:
        return [*self.words, self.name, command]

    def explained(self, said: str, code: int | None) -> Unreachable:
        last = said.strip().splitlines()[-1] if said.strip() else f"its connection ended with code {code} and left no word"
        return Unreachable(printable(last)[:LONGEST], lasting=False)


class SteadyLink(Link):
    """Goes on where the service tells all processes of a job to end: the supervisor ends it when the ranks have."""

    def run(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()


class InsideSite(SshSite):
    link = SteadyLink

    def __init__(self, assignment: Assignment, events: Events, key_file: str, attempt: int) -> None:
        super().__init__(assignment, events)
        self._key_file = key_file
        self.first_attempt = attempt  # as the submitter counts them

    def farewell(self, signal_name: str) -> Stop:
        """The service kills a job some time after it has told it to end: the record has to be out by then."""
        return Stop(Cause.TERMINATED, f"the job was told to end in ModelArts ({signal_name})", FAREWELL)

    def find_host(self, index: int, spec: str) -> Host:
        tools = self.assignment.tools
        words = tools.own("engine", "modelarts", "dial", self._key_file, str(index))
        return WorkerHost(spec, words=tuple(words))

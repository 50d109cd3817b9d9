"""One run of a server: the same as `muster.Run` offers for one of this machine."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.client.follow import RemoteFollower, Trouble
from muster.client.server import Rejected, ServerClient
from muster.client.submission import secrets_of
from muster.dataclass import replace
from muster.job import Job
from muster.job.load import load_text
from muster.job.source import JobError, Problem
from muster.launch.any_run import GOES_ON, POLL, AnyRun
from muster.launch.follow import Chunk, Start, Wanted
from muster.launch.names import RunNotFound
from muster.records.endpoints import EndpointView
from muster.records.ranks import RankView
from muster.records.run_view import AttemptOutcome, RunView
from muster.tester.errors import Unreachable

if TYPE_CHECKING:
    from muster.client.api import Server

ASKING = 20.0  # seconds that one request waits for the end of a run
WAITING = "waiting"  # the phase of a run in the queue of the server
SHOWN = ("project", "pool", "position")  # of a run, that only a server knows


class RemoteRun(AnyRun):
    """One run of a server. Every property asks the server anew."""

    asked = "the server"

    def __init__(self, server: Server, data: dict[str, Any]) -> None:
        self.server = server
        self._seen = RunView.from_shown(data)
        self.id = self._seen.run
        self.known = {name: data.get(name) for name in SHOWN}
        self._requests: queue.SimpleQueue[tuple[bool, str] | None] = queue.SimpleQueue()  # to stop, from signal handlers

    @property
    def view(self) -> RunView:
        self._seen = RunView.from_shown(self.details())
        return self._seen

    @cached_property
    def job(self) -> Job:
        return Job.from_json(self.details()["job"])

    @property
    def handle(self) -> str | None:
        found = self.details()["handle"]
        return None if found is None else str(found)

    def peek(self) -> RunView:
        return self._seen

    def details(self) -> dict[str, Any]:
        data: dict[str, Any] = self._client.get("runs", self.id)
        self.known = {name: data.get(name) for name in SHOWN}
        return data

    def processes(self, attempt: int | None = None) -> list[RankView]:
        attempts = self.details()["attempts"]
        number = self._attempt(attempt)
        chosen = [entry for entry in attempts if number in (None, entry["attempt"])]
        return [RankView.from_json(rank) for rank in chosen[-1]["ranks"]] if chosen else []

    def endpoints(self) -> list[EndpointView]:
        return [EndpointView.from_json(endpoint) for endpoint in self.details().get("endpoints") or []]

    def hosts(self) -> dict[int, str]:
        data = self.details()
        if not data["attempts"] or data["engine"] == "local":
            return {}
        return {node["node"]: str(node["host"]) for node in data["attempts"][-1]["nodes"] if node["host"]}

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        charts = self._client.get("runs", self.id, "series", by="rank")["recorded"]
        of_rank_0 = ((chart["name"], line) for chart in charts for line in chart["lines"] if line["index"] == 0)
        return {name: list(zip(line["x"], line["y"], strict=False)) for name, line in of_rank_0}

    def outcomes(self) -> list[AttemptOutcome]:
        return [AttemptOutcome.from_shown(attempt) for attempt in self.details()["attempts"]]

    def attempt_numbers(self) -> list[int]:
        return list(range(1, self._seen.attempt + 1))

    def submissions(self) -> list[dict[str, Any]]:
        return list(self.details().get("submissions") or [])

    @property
    def option(self) -> str:
        return self.server.option

    def place(self) -> tuple[str, str] | None:
        found = {name: value for name, value in self.known.items() if value is not None and name != "position"}
        return ("on the server", ", ".join(f"{name} {value}" for name, value in found.items())) if found else None

    def origin(self) -> tuple[str, str] | None:
        found = self._client.get("runs", self.id, "origin")
        if found["origin"] is None:
            return None
        changes = [f"{one['field']} {_words(one['before'])} -> {_words(one['after'])}" for one in found["changes"]]
        changes += ["code changed"] if found["code_changed"] else []
        return "clone of", f"{found['origin']}: {', '.join(changes) or 'nothing differs'}"

    def deleted_logs(self) -> str:
        gone = self._client.get("runs", self.id, "logs").get("deleted")
        if not gone:
            return ""
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(gone["time"]))
        return f"the logs of {self.id} were deleted on {when} by the retention of the project {gone['project']}"

    def exposed_keys(self) -> str:
        return ""  # the operator of the server is told

    def node_events(self) -> None:
        return None

    def wait(self, timeout: float | None = None, say: Callable[[str], None] = lambda text: None) -> str:
        deadline = None if timeout is None else time.monotonic() + timeout
        said = ""
        while True:
            left = ASKING if deadline is None else min(ASKING, max(0.0, deadline - time.monotonic()))
            over = self._is_over(left)
            if self.trouble != said:
                said = self.trouble
                say(f"{said}; it is asked again" if said else GOES_ON)
            if over:
                return self._seen.state.value
            if deadline is not None and time.monotonic() >= deadline:
                return self._seen.state.value if said else self.state
            if said:
                time.sleep(POLL)

    def _is_over(self, seconds: float) -> bool:
        """True if the run has ended, waiting for it that long."""
        try:
            self._seen = RunView.from_shown(self._client.get("runs", self.id, "wait", seconds=seconds))
        except Unreachable as error:
            self.trouble = str(error).partition("; check")[0]
            return False
        self.trouble = ""
        return self._seen.state.ended

    def stop(
        self,
        now: bool = False,
        reason: str | None = None,
        wait: bool = True,
        say: Callable[[str], None] = lambda text: None,
    ) -> str:
        self._seen = RunView.from_shown(self._client.post("runs", self.id, "stop", now=now, reason=reason))
        return self.wait(say=say) if wait and not self._seen.state.ended else self._seen.state.value

    def ask_to_stop(self, now: bool, reason: str) -> None:
        self._requests.put((now, reason))  # which a signal handler may do at any moment

    @property
    def listening(self) -> bool:
        return False

    def seen_to_end(self) -> bool:
        return self._is_over(0.0)

    def rerun(
        self, set: Sequence[str] = (), job: str | None = None, project: str | None = None, pool: str | None = None
    ) -> RemoteRun:
        """Starts a clone: with overrides, with another job file, or in another project or pool. Raises JobError."""
        if job is not None:
            wanted = load_text(job, set, Path.cwd(), f"{self.id}.yaml").job
            return self.server.rerun(self.id, set, secrets_of(wanted, self.server.home)[0], job=job, project=project, pool=pool)
        secrets, missing = secrets_of(self.job, self.server.home)
        if missing and not any(change.startswith("secrets") for change in set):
            raise JobError([Problem(self.id, None, *finding) for finding in missing])
        return self.server.rerun(self.id, set, secrets, project=project, pool=pool)

    def remove(self) -> None:
        try:
            self._client.delete("runs", self.id)
        except Rejected as error:
            raise RunNotFound(error.reason) from None

    def follower(
        self, wanted: Wanted, only: int | None = None, start: Start | None = None, process: str | None = None
    ) -> RemoteFollower:
        return RemoteFollower(self._client, self.id, wanted, only, start, process)

    def pieces(self, follower: RemoteFollower, tick: float = POLL) -> Iterator[Chunk | None]:
        sender = threading.Thread(target=self._send_requests, daemon=True)
        sender.start()
        latest = self._seen
        try:
            for item in follower.items(tick):
                if isinstance(item, Trouble):
                    self.trouble = item.reason
                elif item is not None:
                    self.trouble = ""
                if isinstance(item, RunView):
                    latest = item
                    self._seen = replace(item, reason="") if item.phase == WAITING else item
                elif item is None:
                    self._seen = latest  # what it waits for is said once it has waited for a while
                yield item if isinstance(item, Chunk) else None
        finally:
            self._requests.put(None)

    def _send_requests(self) -> None:
        """Passes requests to stop on, until the run is not followed any more; one that is lost is sent again."""
        while (request := self._requests.get()) is not None:
            now, reason = request
            while self._requests.empty():  # a later request replaces this one
                try:
                    self._client.post("runs", self.id, "stop", now=now, reason=reason)
                    break
                except Unreachable:
                    time.sleep(POLL)
                except Rejected:
                    break  # it has ended

    @property
    def _client(self) -> ServerClient:
        return self.server.client


def _words(value: str | None) -> str:
    return "nothing" if value is None else value

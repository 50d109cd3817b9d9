"""One run, seen through its directory: its state, its logs, waiting for it and stopping it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from muster.dataclass import asdict
from muster.engines import registry
from muster.engines.base import Engine, EngineError
from muster.job import Job
from muster.launch.any_run import GOES_ON, POLL, AnyRun
from muster.launch.names import RunNotFound
from muster.launch.start.prepare import prepare_again
from muster.records import derive, submissions
from muster.records import state as states
from muster.records.damage import Damaged, guarded
from muster.records.files import delete_tree, read_events, read_object, write_once
from muster.records.layout import RunDir
from muster.records.run_view import ENDED, AttemptOutcome, RunView
from muster.records.state import recorded
from muster.records.status import Status

if TYPE_CHECKING:  # what is not needed to start a run is imported where it is used: while the run starts
    from muster.launch import reconcile
    from muster.launch.follow import Chunk, Follower, Start, Wanted
    from muster.linux.watch import Watch
    from muster.records.endpoints import EndpointView
    from muster.records.ranks import RankView

STUCK = 15.0  # seconds after a request to end at once, after which a run counts as not responding
HEARING = 5.0  # seconds in which a supervisor reads a request to stop, also over a slow file system
LOOK = 0.1
AT_WORK = (
    "rendezvous",
    "staging",
    "running",
    "uploading",
    "stopping",
    "held",
    "reading",
)  # phases in which there is a supervisor
RELEASE_LIMIT = 5.0  # for a supervisor to go after it has written how the run ended


def has_endpoints(job: Job) -> bool:
    return bool(job.endpoints or job.login)


_started: list[Run] = []  # by this process, which holds something for them until they are seen to have ended
_releasing = Lock()


def release_ended() -> None:
    """Lets go of what is held for runs that this process started and that have ended."""
    for earlier in list(_started):
        earlier._release()


class Run(AnyRun):
    """One run of this machine, seen through its directory. Every property reads it anew."""

    def __init__(self, dir: RunDir, own: bool = False, tie: int | None = None) -> None:
        self.dir = dir
        self.id = dir.id
        self._said: Status | None = None  # what it said when it could
        self._own = own  # whether this process started it, and looks after it
        self._tie = tie  # closed by the system with this process, which the supervisor notices
        if own:
            _started.append(self)

    @property
    def view(self) -> RunView:
        return self.view_with(None)

    def view_with(self, status: Status | None) -> RunView:
        """The same with what its engine has said already, if it has."""
        from muster.launch import views

        return recorded(self.dir) or views.view(self.dir, status or self._status())

    def reconcile(self) -> reconcile.Reconciled:
        """Does what is left to do for the run, such as recording how it ended where its supervisor was killed."""
        from muster.launch import reconcile

        done = reconcile.reconcile(self.dir)
        self._said = done.status or self._said
        return done

    @property
    def job(self) -> Job:
        """The job as it was recorded. Raises Damaged."""
        with guarded(self.dir):
            return Job.from_json(read_object(self.dir.job))

    @property
    def handle(self) -> str | None:
        return submissions.handle(self.dir)

    def processes(self, attempt: int | None = None) -> list[RankView]:
        from muster.records.ranks import ranks

        known = self.outcomes()
        if not known and attempt is None:
            return []
        number = self._attempt(attempt) or known[-1].attempt
        over = any(entry.attempt == number and entry.state.ended for entry in known)
        with guarded(self.dir):
            return ranks(self.dir.attempt(number), self.job, over)

    def peek(self) -> RunView:
        """The run by its files, with the last answer of the engine but without asking it."""
        return derive.view(self.dir, self._said if self._said and self._said.alive else None)

    def details(self) -> dict[str, Any]:
        """Everything about the run: its view, and each attempt with its nodes and ranks; only the view of a damaged one."""
        extra: dict[str, Any] = {"handle": None, "attempts": [], "submissions": [], "job": None}
        view = self.view
        with suppress(Damaged), guarded(self.dir):
            extra = self._details(view)
        return {**view.to_json(), "failure": view.failure.to_json() if view.failure else None, **extra}

    def _details(self, view: RunView) -> dict[str, Any]:
        from muster.records.ranks import nodes, ranks

        job, attempts = self.job, []
        for attempt in self._outcomes(view):
            folder = self.dir.attempt(attempt.attempt)
            inner = {
                "nodes": [node.to_json() for node in nodes(folder, job)],
                "ranks": [rank.to_json() for rank in ranks(folder, job, attempt.state.ended)],
            }
            attempts.append({**attempt.to_json(), **inner})
        extra = {"endpoints": [endpoint.to_json() for endpoint in self._endpoints(job, view)]} if has_endpoints(job) else {}
        return {
            "handle": self.handle,
            "attempts": attempts,
            "submissions": self.submissions(),
            "job": job.to_json(),
            **extra,
        }

    def endpoints(self) -> list[EndpointView]:
        with guarded(self.dir):
            return self._endpoints(self.job, self.peek())

    def _endpoints(self, job: Job, view: RunView) -> list[EndpointView]:
        from muster.records import endpoints

        ended = f"the run has ended ({view.state})" if view.state.ended else ""
        return endpoints.views(self.dir.last_attempt(), job, not view.state.ended, ended)

    def submissions(self) -> list[dict[str, Any]]:
        return [asdict(submission) for submission in submissions.later(self.dir)]

    def outcomes(self) -> list[AttemptOutcome]:
        with guarded(self.dir):
            return self._outcomes(self.view)

    def _outcomes(self, view: RunView) -> list[AttemptOutcome]:
        record = states.read(self.dir)
        known = {attempt.attempt: attempt for attempt in view.attempts}
        found = []
        for attempt in record.attempts:
            number = attempt.dir.number
            if number in known:
                found.append(known[number])
            elif attempt.ended is not None:
                found.append(derive.outcome(record, attempt))
            else:
                found.append(AttemptOutcome(number, view.state, view.reason, None, attempt.started, None))
        return found

    def hosts(self) -> dict[int, str]:
        from muster.records.ranks import nodes

        attempt = self.dir.last_attempt()
        if attempt is None or registry.engine_name(self.dir) == "local":
            return {}
        return {node.node: str(node.host) for node in nodes(attempt, self.job) if node.host}

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        from muster.metrics.sources import curves

        attempt = self.dir.last_attempt()
        return curves(attempt, self.job) if attempt else {}

    def place(self) -> tuple[str, str] | None:
        return self._engine().identity(self.handle) if self.handle else None

    def exposed_keys(self) -> str | None:
        from muster.records import warnings

        return warnings.exposed_keys(self.dir)

    def node_events(self) -> list[dict[str, Any]]:
        return [event for event in read_events(self.dir.events) if event["event"] == "nodes"]

    @property
    def halted(self) -> str:
        return self._said.halted if self._said else ""

    def wait(self, timeout: float | None = None, say: Callable[[str], None] = lambda text: None) -> str:
        """Waits for the end; returns the state, which is not an end when the time was up first.

        `say` is called when its supervisor stands still or its engine does not answer, and when that is over.
        """
        from muster.linux.watch import Watch

        said = ""
        deadline = None if timeout is None else time.monotonic() + timeout
        with closing(Watch()) as watch:
            watch.add(self.dir.path)
            while True:
                if self.attend():
                    self._release(wait=True)
                    return self.state
                found = f"{self.trouble}; its engine is asked again" if self.trouble else self.halted
                if found != said:
                    said = found
                    say(said or GOES_ON)
                left = POLL if deadline is None else min(POLL, deadline - time.monotonic())
                if left <= 0:
                    return self.state
                self._until_change(watch, left)

    def seen_to_end(self) -> bool:
        """True if the run has ended; false also while its engine is out of reach."""
        return self._is_over(lambda: self.view)

    def attend(self) -> bool:
        """The same, and does what is left to do for the run: for those who wait for it."""
        return self._is_over(lambda: self.reconcile().view)

    def _is_over(self, look: Callable[[], RunView]) -> bool:
        try:
            ended = look().state.ended
        except EngineError as error:
            self.trouble = str(error)
            return False
        self.trouble = ""
        return ended

    def _until_change(self, watch: Watch, timeout: float) -> None:
        """Sleeps until the run may have ended; most changes of its directory are not that."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and recorded(self.dir) is None:
            watch.wait(deadline - time.monotonic())

    def attempt_numbers(self) -> list[int]:
        return self.dir.attempt_numbers()

    def follower(
        self, wanted: Wanted, only: int | None = None, start: Start | None = None, process: str | None = None
    ) -> Follower:
        from muster.launch.follow import Follower

        return Follower(self.dir, wanted, only, start)

    def pieces(self, follower: Follower, tick: float = POLL) -> Iterator[Chunk | None]:
        """Yields what a follower finds, until the run ends; None whenever nothing came for a while.

        A run that this process started is looked after meanwhile; others are only read.
        """
        asked = time.monotonic()
        changed: list[tuple[str, str]] | None = None
        lost = False  # known here even where a full disk keeps it from being written down
        while True:
            ended = lost or follower.ended
            quiet = True
            for chunk in follower.chunks(None if ended else changed):
                quiet = False
                yield chunk
            if ended:
                self._release()
                return
            if quiet:
                yield None
            changed = follower.wait(tick)
            if time.monotonic() - asked >= POLL:
                asked = time.monotonic()
                lost = self.attend() if self._own else self.seen_to_end()

    def stop(
        self,
        now: bool = False,
        reason: str = "stopped by the user",
        wait: bool = True,
        say: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Asks the run to stop: ranks get the job's grace, or none with `now`. `say` is called as by `wait`."""
        if now:
            self._end_survivors()
        listening = self.listening
        if listening or not self.seen_to_end():
            self.ask_to_stop(now, reason)
        if not wait:
            return (self.peek() if listening else self.reconcile().view).state.value
        if listening and self._wait_until(self._has_heard, HEARING):
            self._wait_until(lambda: False, STUCK if now else self.job.grace + STUCK)
        deaf = listening and not self._has_heard()
        if (now or deaf) and self.wait(STUCK, say) not in ENDED and (now or not self._has_heard()):
            self._cancel()
        return self.wait(say=say)

    def _end_survivors(self) -> None:
        """Ends what still runs although the record says that the run has ended, which a rank can write there, too."""
        if not self._engine().lasting and recorded(self.dir) and self._status().alive:
            self._cancel()
            self._engine().sweep(self.id)

    @property
    def listening(self) -> bool:
        """True if a supervisor elsewhere seems to be at work, by the files alone: it can be asked without its engine."""
        return self._engine().lasting and self.peek().phase in AT_WORK

    def _has_heard(self) -> bool:
        """True if the supervisor has read the request to stop."""
        found = [event["event"] for event in read_events(self.dir.events)]
        return [event for event in found if event in ("attempt", "stopping", "ended")][-1:] != ["attempt"]

    def _wait_until(self, reached: Callable[[], bool], limit: float) -> bool:
        """Waits by the files alone until a condition holds; false when the run has ended or the time is up first."""
        deadline = time.monotonic() + limit
        while not reached():
            if recorded(self.dir) is not None or time.monotonic() >= deadline:
                return False
            time.sleep(LOOK)
        return True

    def ask_to_stop(self, now: bool, reason: str) -> None:
        """Leaves the request for the supervisor, and nothing else: a signal handler may call it at any moment."""
        try:
            write_once(self.dir.kill if now else self.dir.stop, {"reason": reason, "time": time.time()})
        except OSError:  # such as a full disk: the engine can still end it
            self._cancel()

    def preempt(self, reason: str) -> None:
        """Asks the run to leave its devices and to wait until it is continued. Raises EngineError where it cannot be asked."""
        from muster.launch import preemption

        preemption.preempt(self.dir, reason)

    def rerun(self, set: Sequence[str] = (), detach: bool = False) -> Run:
        """Starts the same job again, with the code as it was recorded."""
        from muster.launch.api import start

        return start(prepare_again(self, set), detach)

    def remove(self) -> None:
        """Deletes the record of a run that has ended. Renames it first, so that no reader sees half of it."""
        if not self.reconcile().view.state.ended:
            raise RunNotFound(f"{self.id} has not ended; stop it first")
        doomed = f"{os.path.dirname(self.dir.path)}/.{self.id}"
        os.rename(self.dir.path, doomed)
        delete_tree(doomed)

    def _release(self, wait: bool = False) -> None:
        """Once a run has ended, gives back what this process holds for it; with `wait`, when its supervisor is gone."""
        if self not in _started or recorded(self.dir) is None:
            return
        lasting = self._engine().lasting
        deadline = time.monotonic() + (RELEASE_LIMIT if wait else 0.0)
        while (alive := not lasting and self._status().alive) and time.monotonic() < deadline:
            time.sleep(0.002)
        with _releasing:
            if self._tie is not None:
                os.close(self._tie)
                self._tie = None
            if not alive and self in _started:
                _started.remove(self)

    def _status(self) -> Status:
        from muster.launch import views

        self._said = views.ask(self.dir)
        return self._said

    def _cancel(self) -> None:
        if handle := self.handle:
            self._engine().cancel(handle)

    def _engine(self) -> Engine:
        return registry.engine_of(self.dir)

"""The supervisor of a run: starts its attempts, keeps its time limit, and writes how it ended.

It knows nothing of how a node is made: its site starts the nodes, reports those that have ended, and leaves nothing running.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from functools import partial

from muster.agent.supervisor.arbiter import Arbiter, Patience
from muster.agent.supervisor.log_reader import LogReader, why_failed
from muster.agent.supervisor.site import Assignment, NotReady, Site
from muster.channel.base import SupervisorChannel
from muster.dataclass import replace
from muster.job import Job
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.signals import Signals, reap_children
from muster.linux.watch import Watch, readable
from muster.records import derive, state, submissions
from muster.records.files import Events, delete_tree, read_events, read_object
from muster.records.layout import AttemptDir
from muster.records.run_view import AttemptOutcome, Cause, State, Stop
from muster.records.text.failures import over_time
from muster.records.text.units import duration, signal_name
from muster.records.untrusted import number

ABANDONED_GRACE = 5.0  # when the command that followed the run is gone
DEVICE_PAUSE = 2.0  # between two looks at the devices' own process lists
READ_LIMIT = 600.0  # for the logs of a run that has succeeded
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
INTERRUPTED = (Cause.TERMINATED, Cause.PREEMPTED, Cause.LOST)  # causes that need not be the end of a run
INTERRUPTED_CODE = 128 + signal.SIGTERM  # the exit code of a supervisor that may be started again


class Supervisor:
    def __init__(self, assignment: Assignment, site: Site, events: Events, command: int | None = None) -> None:
        self.assignment = assignment
        self.run = assignment.run
        self.job = assignment.job
        self.site = site
        self.command = command  # readable when the command that follows this run is gone
        self.events = events
        self.signals = Signals((signal.SIGCHLD, *ENDING))
        release()
        self.watch = Watch()
        self.watch.add(self.run.path)
        self.stop: Stop | None = None  # why the run has to end, once it has to
        self.kill = False
        self._made: list[AttemptOutcome] = []  # how the attempts have ended
        self._preempted = ""  # why it leaves its devices, where it was asked to
        self.deadline: float | None = None
        self.resumed: state.AttemptRecord | None = None  # the attempt of an earlier supervisor that goes on

    def carry_out(self) -> int:
        """The whole life of a run, or what is left of it where an earlier supervisor was cut off; returns the exit code."""
        if state.recorded(self.run) or not self.site.enter():
            return 0
        syscalls.adopt_orphans()
        earlier = self._take_over()
        hopeless = derive.in_vain(state.read(self.run)) if earlier else ""
        if hopeless:
            return self._conclude(state="lost", reason=f"{hopeless}; the last time: {earlier[-1].reason}")
        done = None
        try:
            done = self._attempts(earlier) if self.resumed or self._ready() else None
        except NotReady as error:
            return self._conclude(state="failed", reason=str(error))
        finally:
            self.site.close(keep=self._leaves(done))
        cause, reason = _ending(done or self.stop)
        if self._leaves(done):
            cause = Cause.PREEMPTED if self._preempted else cause
            self.events.add("told-to-end", cause=cause.value, reason=self._preempted or reason, waits=True)
            return INTERRUPTED_CODE
        if self.site.starts_again and cause in INTERRUPTED and not (done and done.state is State.FAILED):
            self.events.add("told-to-end", cause=cause.value, reason=reason)
            self.site.leave(self.stop.cause if self.stop else cause, reason)
            return INTERRUPTED_CODE
        if done:
            return self._conclude_apart() if done.state is State.SUCCEEDED else self._conclude()
        # The end came before the first attempt, or between two.
        return self._conclude(state="failed" if cause is Cause.TIME_LIMIT else "stopped", reason=reason)

    def _leaves(self, done: AttemptOutcome | None) -> bool:
        """True if the run leaves its devices on request, and did not end of itself before: it waits until it is continued.

        So does a preemptible run of a server's queue whose nodes were lost: it continues on others.
        """
        if self.stop is None:
            lost = done is not None and done.cause is Cause.LOST
            return lost and self.job.preemptible and bool(read_object(self.run.run).get("owner"))
        stopped = bool(self._preempted) and self.stop.cause is Cause.PREEMPTED
        return stopped and (done is None or done.state in (State.STOPPED, State.LOST))

    def _conclude(self, **how: str) -> int:
        from muster.metrics import final

        self.events.add("ended", **how)
        final.conclude(self.run)
        return 0

    def _conclude_apart(self) -> int:
        """The same, in another process where logs have to be read."""
        from muster.metrics import final, log_numbers

        if not log_numbers.wanted(self.job):
            return self._conclude()
        self.events.add("ended")
        try:
            reader = LogReader(self.run)
        except OSError:  # as many processes as may be
            final.conclude(self.run)
            return 0
        why = self._until_read(reader, time.monotonic() + READ_LIMIT)
        if why:
            final.conclude(self.run, unread=log_numbers.Unread(why))
        return 0

    def _until_read(self, reader: LogReader, deadline: float) -> str:
        """Waits for the reader of logs; returns why it wrote no final record, if so."""
        self.command = None  # there is nothing left to stop when the command is gone
        while True:
            signals = self.signals.take() & ENDING
            self.watch.drain()
            status = dict(reap_children()).get(reader.pid)
            if status is not None:
                return why_failed(status)
            why = ""
            if os.path.exists(self.run.kill):
                why = "the run was stopped at once"
            elif signals:
                why = f"the supervisor was told to end ({signal_name(min(signals))})"
            elif time.monotonic() >= deadline:
                why = f"reading took longer than {duration(READ_LIMIT)}"
            if why:
                reader.kill()
                return why
            self._wait(_until(deadline))

    def _take_over(self) -> list[AttemptOutcome]:
        """How the attempts of earlier supervisors ended. One that has no end was cut off with its supervisor."""
        self._note_submission()
        record = state.read(self.run)
        for attempt in record.attempts:
            if attempt.ended is None and self.site.resume(attempt.dir):
                self.resumed = attempt
            elif attempt.ended is None:
                cut = None if state.complete(attempt) else self.site.explain_cut(attempt.dir)
                self.events.add("attempt-ended", attempt=attempt.dir.number, **(cut.to_json() if cut else {}))
                delete_tree(attempt.dir.ssh)
        record = state.read(self.run) if record.attempts else record
        ended = [attempt for attempt in record.attempts if attempt.ended is not None]
        return [derive.outcome(record, attempt) for attempt in ended]

    def _note_submission(self) -> None:
        """Notes that the run was submitted again, which others than the one writer of its events may have done."""
        noted = [event.get("submission") for event in read_events(self.run.events)]
        number = submissions.current(self.run)
        if number > 1 and number not in noted:
            last = submissions.later(self.run)[-1]
            self.events.add("submitted-again", submission=number, handle=last.handle, reason=last.reason)

    def _ready(self) -> bool:
        """Waits until the site has what the run needs; false when it has to end before."""
        said = ""
        self._look()
        while self.stop is None:
            if self.site.ready():
                return True
            if self.site.reason != said:
                said = self.site.reason
                self.events.add("waiting", reason=said)
            self._look()  # the drivers' tools have ended: the signal of that would end the wait at once
            if self.stop is None:
                self._wait(DEVICE_PAUSE, self.site.filenos())
                self._look()
        return False

    def _attempts(self, earlier: Sequence[AttemptOutcome]) -> AttemptOutcome | None:
        """Makes attempts after the earlier ones until there is no reason for another; None when an end comes in between."""
        made = self._made = list(earlier)
        self._start_clock(made)
        if self.resumed is not None:
            made.append(self._attempt(self.resumed.dir.number, resumed=True))
            if self._tries_again(made) and not self._ready():
                return made[-1]
        while not made or self._tries_again(made, len(earlier)):
            if self.stop is not None:
                return None
            if made:
                self.events.add("retry", attempt=made[-1].attempt, reason=made[-1].reason)
                if self.site.queues and len(made) > len(earlier) and not self._ready():
                    return None
            made.append(self._attempt(max(self.site.first_attempt, (self.run.attempt_numbers() or [0])[-1] + 1)))
        return made[-1]

    def _tries_again(self, made: Sequence[AttemptOutcome], earlier: int = 0) -> bool:
        return tries_again(self.job, made, earlier, self.site.nodes_return)

    def _start_clock(self, earlier: Sequence[AttemptOutcome]) -> None:
        """The time limit holds for all attempts together, those that were cut off included; waiting for nodes is free."""
        if self.job.time_limit:
            spent = sum(done.ended - done.started for done in earlier if done.ended and done.started)
            spent += time.time() - self.resumed.started if self.resumed else 0.0
            self.deadline = self.site.deadline = time.monotonic() + self.job.time_limit - spent

    # -- one attempt

    def _attempt(self, number: int, resumed: bool = False) -> AttemptOutcome:
        attempt = self.run.attempt(number)
        channel = self.site.channel(self.assignment, attempt)
        self.watch.add(attempt.path, writes=True)
        self.events.add("resumed" if resumed else "attempt", attempt=number)
        try:
            if not resumed:
                self.site.start(attempt)
            from muster.metrics import final as final  # while nodes are made: ranks may break the packed agent

            lost = self._follow(attempt, channel, resumed)
        finally:
            self.site.sweep(attempt)
            delete_tree(attempt.ssh)
            channel.close()
        announced = Stop.from_json(read_object(attempt.stop)).cause
        leaves = bool(self._preempted) and announced is Cause.PREEMPTED
        wanted = leaves or (self.stop is not None and self.stop.cause not in INTERRUPTED)  # whatever else was lost then
        cut = self.site.verdict(attempt) if lost and not wanted else None
        self.events.add("attempt-ended", attempt=number, **(cut.to_json() if cut else {}))
        record = state.read(self.run)
        return derive.outcome(record, record.attempts[-1])

    def _follow(self, attempt: AttemptDir, channel: SupervisorChannel, resumed: bool) -> list[int]:
        """Follows the nodes of an attempt until all have ended; returns those that were lost."""
        lost: list[int] = []  # nodes that ended without a record of it
        running = set(range(self.assignment.count))
        decides = self.site.arbiter or Arbiter
        arbiter: Arbiter = decides(self.assignment, attempt, channel, self.events, partial(self._hold, attempt))
        patience = Patience(channel)
        arbiter.resume() if resumed else arbiter.begin()
        while running:
            self._look()  # before the site does: the signal of a child that ends in between has to wake the wait below
            arbiter.decide()
            self._answer_terminated(arbiter)
            for event in self.site.ended(attempt, channel):
                running.discard(event.node)
                if event.lost:
                    lost.append(event.node)
                    self.events.add("lost", attempt=attempt.number, node=event.node, reason=event.lost)
                    arbiter.announce_stop(Stop(Cause.LOST, f"the agent of node {event.node} {event.lost}", self.job.grace))
            if self.stop is not None:
                arbiter.announce_stop(self.stop)
                arbiter.release()  # whatever it is, it ends what only waits for people
            if doomed := patience.over(running, arbiter.stop, self.kill):
                self.site.kill(doomed)
            if running:
                pause = self.site.pause and time.monotonic() + self.site.pause
                timeout = _until(self.deadline, patience.until, *arbiter.moments, pause)
                news = () if channel.polling else (channel.fileno(),)
                self._wait(timeout, (*self.site.filenos(), *news), channel.polling)
        return lost

    def _hold(self, attempt: AttemptDir, stop: Stop) -> float:
        """Returns for how long nodes are kept after a failure: as the job says within its time limit, if no attempt follows."""
        if not self.job.hold_on_failure or self.stop is not None:
            return 0.0
        record = state.read(self.run)
        failed = derive.outcome(record, replace(record.attempts[-1], stop=stop))
        if self._tries_again([*self._made, failed]) or (failed.failure and failed.failure.failure.kind == "plan"):
            return 0.0
        left = math.inf if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        return min(self.job.hold_on_failure, left)

    def _answer_terminated(self, arbiter: Arbiter) -> None:
        """Answers an agent that got SIGTERM: a batch system may mean the whole run, and knows why and how long it has."""
        if arbiter.terminated is not None and not self.site.starts_again:
            arbiter.announce_stop(arbiter.terminated)
        elif arbiter.terminated is not None and self.stop is None:
            self._say_farewell("SIGTERM")

    # -- what happens meanwhile

    def _look(self) -> None:
        """Takes in signals, requests to stop, the loss of the command, and the passing of time."""
        signals = self.signals.take() & ENDING
        self.watch.drain()
        if not os.path.isdir(self.run.path):
            os._exit(1)  # the record was deleted; agents and ranks end with this process
        asked = read_object(self.run.stop) if self.stop is None else {}
        now = read_object(self.run.kill) if not self.kill else {}
        if asked or now:
            self._must_stop(Cause.STOP, str((asked or now).get("reason", "stopped")))
        if now:
            self.kill = True
            self.events.add("killing")
        if self.stop is None and (leave := read_object(self.run.preempt)):
            self._preempted = str(leave.get("reason") or "preempted")
            most = number(leave.get("grace"))
            self._must_stop(Cause.PREEMPTED, self._preempted, math.inf if most is None else max(0.0, most))
        if signals and self.stop is None:
            self._say_farewell(signal_name(min(signals)))
        if self.command is not None and readable([self.command], 0):
            os.close(self.command)
            self.command = None
            self._must_stop(Cause.ABANDONED, "the command that followed this run is gone", ABANDONED_GRACE)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.deadline = None
            self._must_stop(Cause.TIME_LIMIT, over_time(self.job.time_limit or 0))

    def _say_farewell(self, signal: str) -> None:
        stop = self.site.farewell(signal)
        self._must_stop(stop.cause, stop.reason, stop.grace)

    def _must_stop(self, cause: Cause, reason: str, grace: float = math.inf) -> None:
        if self.stop is None:
            self.stop = Stop(cause, reason, min(grace, self.job.grace))
            self.events.add("stopping", cause=cause.value, reason=reason)

    def _wait(self, timeout: float | None, others: Sequence[int] = (), polling: bool = False) -> None:
        readers = [self.signals.fileno(), *others]
        if self.command is not None:
            readers.append(self.command)
        if polling or self.watch.polling:
            timeout = min(0.1, timeout or 0.1)
        else:
            readers.append(self.watch.fileno())
        readable(readers, timeout)


def tries_again(job: Job, made: Sequence[AttemptOutcome], earlier: int = 0, nodes_return: bool = False) -> bool:
    """Returns whether another attempt follows those that were made, the first `earlier` of them by earlier supervisors.

    Failures of the program use up retries, and lost nodes do where the same ones can be had again.
    """
    done = made[-1]
    lost = job.preemptible and done.cause is Cause.LOST
    if len(made) == earlier and (done.state in (State.LOST, State.STOPPED) or lost):
        return True  # whoever ended it has started this supervisor
    retried = (State.FAILED, State.LOST) if nodes_return else (State.FAILED,)
    failures = sum(1 for each in made if each.state in retried)
    if done.state not in retried or done.cause is Cause.TIME_LIMIT or failures > job.retries:
        return False
    failure = done.failure.failure if done.failure else None
    if failure and failure.kind in ("plan", "output"):  # it would fail again, or the training is done
        return False
    if not job.retry_on:
        return True
    code = failure and (128 + failure.signal if failure.signal else failure.code)  # as a shell counts
    return done.cause in job.retry_on or code in job.retry_on


def _ending(found: AttemptOutcome | Stop | None) -> tuple[Cause, str]:
    """Returns why a run ends: as its last attempt did, or because it has to stop before one."""
    return (found.cause or Cause.UNKNOWN, found.reason) if found else (Cause.UNKNOWN, "")


def _until(*moments: float | None) -> float | None:
    given = [moment for moment in moments if moment is not None]
    return max(0.0, min(given) - time.monotonic()) if given else None

"""The supervisor of a run: starts its attempts, keeps its time limit, and writes how it ended.

It knows nothing of how a node is made: its site starts the nodes, tells it which have ended, and leaves nothing running.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from muster.agent.supervisor.arbiter import Arbiter
from muster.agent.supervisor.log_reader import LogReader, why_failed
from muster.agent.supervisor.patience import Patience
from muster.agent.supervisor.site import Assignment, Site
from muster.channel.base import Stop, SupervisorChannel
from muster.job import Job
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.signals import Signals, reap_children
from muster.linux.watch import Watch, readable
from muster.metrics import final, log_numbers
from muster.records import derive, state, submissions
from muster.records.failure_text import duration, over_time, signal_name
from muster.records.files import Events, delete_tree, read_events, read_object
from muster.records.layout import AttemptDir

ABANDONED_GRACE = 5.0  # when the command that followed the run is gone
DEVICE_PAUSE = 2.0  # between two looks at the devices' own process lists
READ_LIMIT = 600.0  # for the logs of a run that has succeeded
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
INTERRUPTED = ("terminated", "preempted", "lost")  # causes that need not be the end of a run
TOLD_TO_END = 128 + signal.SIGTERM  # the exit code of a supervisor that may be started again


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
        self.deadline: float | None = None

    def carry_out(self) -> int:
        """The whole life of a run, or what is left of it where an earlier supervisor was cut off; returns the exit code."""
        if state.recorded(self.run) or not self.site.enter():
            return 0
        syscalls.adopt_orphans()
        earlier = self._take_over()
        hopeless = derive.in_vain(state.read(self.run)) if earlier else ""
        if hopeless:
            return self._conclude(state="lost", reason="{}; the last time: {}".format(hopeless, earlier[-1]["reason"]))
        try:
            done = self._attempts(earlier) if self._ready() else None
        finally:
            self.site.close()
        ending = done or (self.stop.to_json() if self.stop else {})
        if self.site.starts_again and _may_start_again(ending):
            self.events.add("told-to-end", cause=ending["cause"], reason=ending["reason"])
            self.site.leave(self.stop.cause if self.stop else ending["cause"], ending["reason"])
            return TOLD_TO_END
        if done is not None and done["state"] == "succeeded" and log_numbers.wanted(self.job):
            return self._conclude_apart()
        if done is not None:
            return self._conclude()
        # The end came before the first attempt, or between two.
        return self._conclude(state="failed" if ending["cause"] == "time_limit" else "stopped", reason=ending["reason"])

    def _conclude(self, **how: str) -> int:
        self.events.add("ended", **how)
        final.conclude(self.run)
        return 0

    def _conclude_apart(self) -> int:
        """The same where logs have to be read."""
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

    def _take_over(self) -> list[dict[str, Any]]:
        """How the attempts of earlier supervisors ended. One that has no end was cut off with its supervisor."""
        self._note_submission()
        for attempt in state.read(self.run).attempts:
            if attempt.ended is None:
                cut = None if state.complete(attempt) else self.site.explain_cut(attempt.dir)
                how = {"cause": "lost", "reason": cut.reason} if cut else {}
                until = {"until": cut.until} if cut and cut.until else {}
                self.events.add("attempt-ended", attempt=attempt.dir.number, **how, **until)
                delete_tree(attempt.dir.ssh)
        record = state.read(self.run)
        return [derive.outcome(record, attempt).to_json() for attempt in record.attempts]

    def _note_submission(self) -> None:
        """Notes that the run was submitted again, which others than the one writer of its events may have done."""
        noted = [event.get("submission") for event in read_events(self.run.events)]
        number = submissions.current(self.run)
        if number > 1 and number not in noted:
            last = submissions.later(self.run)[-1]
            self.events.add("submitted-again", submission=number, handle=last["handle"], reason=last["reason"])

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

    def _attempts(self, earlier: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Makes attempts after the earlier ones until there is no reason for another; None when an end comes in between."""
        made = list(earlier)
        self._start_clock(made)
        while not made or tries_again(self.job, made, len(earlier)):
            if self.stop is not None:
                return None
            if made:
                self.events.add("retry", attempt=made[-1]["attempt"], reason=made[-1]["reason"])
            made.append(self._attempt((self.run.attempt_numbers() or [0])[-1] + 1))
        return made[-1]

    def _start_clock(self, earlier: Sequence[dict[str, Any]]) -> None:
        """The time limit holds for all attempts together, those that were cut off included; waiting for nodes is free."""
        if self.job.time_limit:
            spent = sum(done["ended"] - done["started"] for done in earlier)
            self.deadline = self.site.deadline = time.monotonic() + self.job.time_limit - spent

    # -- one attempt

    def _attempt(self, number: int) -> dict[str, Any]:
        attempt = self.run.attempt(number)
        channel = self.site.channel(self.assignment, attempt)
        self.watch.add(attempt.path, writes=True)
        self.events.add("attempt", attempt=number)
        try:
            self.site.start(attempt)
            lost = self._follow(attempt, channel)
        finally:
            self.site.sweep(attempt)
            delete_tree(attempt.ssh)
            channel.close()
        wanted = self.stop is not None and self.stop.cause not in INTERRUPTED  # then it does not matter what else was lost
        verdict = self.site.verdict(attempt) if lost and not wanted else None
        how = {"cause": verdict.cause, "reason": verdict.reason} if verdict else {}
        self.events.add("attempt-ended", attempt=number, **how)
        record = state.read(self.run)
        return derive.outcome(record, record.attempts[-1]).to_json()

    def _follow(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[int]:
        """Follows the nodes of an attempt until all have ended; returns those that were lost."""
        lost: list[int] = []  # nodes that ended without a record of it
        running = set(range(self.assignment.count))
        arbiter, patience = Arbiter(self.assignment, attempt, channel, self.events), Patience(channel)
        arbiter.begin()
        while running:
            self._look()  # before the site does: the signal of a child that ends in between has to wake the wait below
            arbiter.decide()
            self._answer_terminated(arbiter)
            for event in self.site.ended(attempt, channel):
                running.discard(event.node)
                if event.lost:
                    lost.append(event.node)
                    self.events.add("lost", attempt=attempt.number, node=event.node, reason=event.lost)
                    arbiter.announce_stop(Stop("lost", f"the agent of node {event.node} {event.lost}", self.job.grace))
            if self.stop is not None:
                arbiter.announce_stop(self.stop)
            if doomed := patience.over(running, arbiter.stop, self.kill):
                self.site.kill(doomed)
            if running:
                timeout = _until(self.deadline, patience.until, *arbiter.moments, _after(self.site.pause))
                news = () if channel.polling else (channel.fileno(),)
                self._wait(timeout, (*self.site.filenos(), *news), channel.polling)
        return lost

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
        asked = read_object(self.run.stop) if self.stop is None else None
        if asked:
            self._must_stop("stop", str(asked.get("reason", "stopped")))
        now = read_object(self.run.kill) if not self.kill else None
        if now:
            self.kill = True
            self._must_stop("stop", str(now.get("reason", "stopped")))
        if signals and self.stop is None:
            self._say_farewell(signal_name(min(signals)))
        if self.command is not None and readable([self.command], 0):
            os.close(self.command)
            self.command = None
            grace = min(ABANDONED_GRACE, self.job.grace)
            self._must_stop("abandoned", "the command that followed this run is gone", grace)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.deadline = None
            self._must_stop("time_limit", over_time(self.job.time_limit or 0))

    def _say_farewell(self, signal: str) -> None:
        farewell = self.site.farewell(signal)
        grace = self.job.grace if farewell.seconds is None else min(self.job.grace, farewell.seconds)
        self._must_stop(farewell.cause, farewell.reason, grace)

    def _must_stop(self, cause: str, reason: str, grace: float | None = None) -> None:
        if self.stop is None:
            self.stop = Stop(cause, reason, self.job.grace if grace is None else grace)
            self.events.add("stopping", cause=cause, reason=reason)

    def _wait(self, timeout: float | None, others: Sequence[int] = (), polling: bool = False) -> None:
        readers = [self.signals.fileno(), *others]
        if self.command is not None:
            readers.append(self.command)
        if polling or self.watch.polling:
            timeout = min(0.1, timeout or 0.1)
        else:
            readers.append(self.watch.fileno())
        readable(readers, timeout)


def tries_again(job: Job, made: Sequence[dict[str, Any]], earlier: int = 0) -> bool:
    """Returns whether another attempt follows those that were made, the first `earlier` of them by earlier supervisors.

    Only failures of the program use up retries.
    """
    done = made[-1]
    if len(made) == earlier and done["state"] in ("lost", "stopped"):
        return True  # whoever ended it has started this supervisor
    failures = sum(1 for each in made if each["state"] == "failed")
    if done["state"] != "failed" or done["cause"] == "time_limit" or failures > job.retries:
        return False
    failure = done["failure"] or {}
    if failure.get("kind") in ("plan", "output"):  # it would fail again, or the training is done
        return False
    if not job.retry_on:
        return True
    code = 128 + failure["signal"] if failure.get("signal") else failure.get("code")  # as a shell counts
    return done["cause"] in job.retry_on or code in job.retry_on


def _may_start_again(ending: dict[str, Any]) -> bool:
    """Whether a run was interrupted, and did not end: by its site, or with a machine that is gone."""
    return ending["cause"] in INTERRUPTED and ending.get("state") != "failed"


def _until(*moments: float | None) -> float | None:
    given = [moment for moment in moments if moment is not None]
    return max(0.0, min(given) - time.monotonic()) if given else None


def _after(pause: float | None) -> float | None:
    return None if pause is None else time.monotonic() + pause

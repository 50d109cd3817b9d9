"""The supervisor of a run: starts its attempts, keeps its time limit, and writes how it ended.

It knows nothing of how a node is made: its site starts the nodes, tells it which have ended, and leaves nothing running.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from muster.agent.supervisor.site import Assignment, Site, left_record
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.signals import Signals, reap_children
from muster.linux.watch import Watch, readable
from muster.metrics import final, log_numbers
from muster.records import derive, state, submissions
from muster.records.failure_text import duration, over_time, signal_name
from muster.records.files import Events, delete_tree, read_events, read_object, write_once
from muster.records.json_safe import number
from muster.records.layout import AttemptDir, RunDir

ABANDONED_GRACE = 5.0  # when nobody is left who would wait for the ranks
DEVICE_PAUSE = 2.0  # between two looks at the devices' own process lists
KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace
LINGER_LIMIT = 5.0  # for nodes to be gone once all of them have recorded their ends
READ_LIMIT = 600.0  # for the logs of a run that has succeeded
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
INTERRUPTED = ("terminated", "preempted", "lost")  # causes that need not be the end of a run
TOLD_TO_END = 128 + signal.SIGTERM  # the exit code of a supervisor that may be started again


class Supervisor:
    def __init__(self, assignment: Assignment, site: Site, events: Events, command: int | None = None) -> None:
        self.run = assignment.run
        self.job = assignment.job
        self.site = site
        self.command = command  # readable when the command that follows this run is gone
        self.events = events
        self.signals = Signals((signal.SIGCHLD, *ENDING))
        release()
        self.watch = Watch()
        self.watch.add(self.run.path)
        self.stop: dict[str, Any] | None = None  # why the run has to end, once it has to
        self.kill = False
        self.told: set[int] = set()  # attempts whose gang was told to stop
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
        ending = done or self.stop or {}
        if self.site.starts_again and _may_start_again(ending):
            self.events.add("told-to-end", cause=ending["cause"], reason=ending["reason"])
            self.site.leave((self.stop or ending)["cause"], ending["reason"])
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
        """The same by a process that can be killed: logs may be long, and nothing that is in them may hold up the end."""
        self.events.add("ended")
        try:
            reader = os.fork()
        except OSError:  # as many processes as may be
            final.conclude(self.run)
            return 0
        if reader == 0:
            _be_reader(self.run)
        why = self._until_read(reader, time.monotonic() + READ_LIMIT)
        if why:
            final.conclude(self.run, unread=log_numbers.Unread(why))
        return 0

    def _until_read(self, reader: int, deadline: float) -> str:
        """Waits for a process that reads logs and writes the final record; returns why it did not come to that, if so."""
        self.command = None  # there is nothing left to stop when the command is gone
        while True:
            told = self.signals.take() & ENDING
            self.watch.drain()
            status = dict(reap_children()).get(reader)
            if status is not None:
                return _how_reading_failed(status)
            why = ""
            if os.path.exists(self.run.kill):
                why = "the run was stopped at once"
            elif told:
                why = f"the supervisor was told to end ({signal_name(min(told))})"
            elif time.monotonic() >= deadline:
                why = f"reading took longer than {duration(READ_LIMIT)}"
            if why:
                os.kill(reader, signal.SIGKILL)
                os.waitpid(reader, 0)
                return why
            self._wait(_until(deadline))

    def _take_over(self) -> list[dict[str, Any]]:
        """How the attempts of earlier supervisors ended. One that has no end was cut off with its supervisor."""
        self._tell_submission()
        for attempt in state.read(self.run).attempts:
            if attempt.ended is None:
                cut = None if state.complete(attempt) else self.site.explain_cut(attempt.dir)
                how = {"cause": "lost", "reason": cut.reason} if cut else {}
                until = {"until": cut.until} if cut and cut.until else {}
                self.events.add("attempt-ended", attempt=attempt.dir.number, **how, **until)
                delete_tree(attempt.dir.ssh)
        record = state.read(self.run)
        return [derive.outcome(record, attempt).to_json() for attempt in record.attempts]

    def _tell_submission(self) -> None:
        """Notes that the run was submitted again, which others than the one writer of its events may have done."""
        told = [event.get("submission") for event in read_events(self.run.events)]
        number = submissions.current(self.run)
        if number > 1 and number not in told:
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
        while not made or self._again(made, len(earlier)):
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

    def _again(self, made: Sequence[dict[str, Any]], earlier: int) -> bool:
        """Whether a new attempt follows: a decision from the outcomes alone. Only failures of the program use up retries."""
        done = made[-1]
        if len(made) == earlier and done["state"] in ("lost", "stopped"):
            return True  # whoever ended it has started this supervisor
        failures = sum(1 for each in made if each["state"] == "failed")
        if done["state"] != "failed" or done["cause"] == "time_limit" or failures > self.job.retries:
            return False
        failure = done["failure"] or {}
        if failure.get("kind") in ("plan", "output"):  # it would fail again, or the training is done
            return False
        if not self.job.retry_on:
            return True
        code = 128 + failure["signal"] if failure.get("signal") else failure.get("code")  # as a shell counts
        return done["cause"] in self.job.retry_on or code in self.job.retry_on

    # -- one attempt

    def _attempt(self, number: int) -> dict[str, Any]:
        attempt = self.run.attempt(number)
        os.makedirs(attempt.meet)
        os.makedirs(attempt.nodes)
        self.watch.add(attempt.meet)
        self.watch.add(attempt.path, writes=True)
        self.events.add("attempt", attempt=number)
        try:
            self.site.start(attempt)
            lost = self._follow(attempt)
        finally:
            self.site.sweep(attempt)
            delete_tree(attempt.ssh)
        wanted = self.stop is not None and self.stop["cause"] not in INTERRUPTED  # then it does not matter what else was lost
        verdict = self.site.verdict(attempt) if lost and not wanted else None
        how = {"cause": verdict.cause, "reason": verdict.reason} if verdict else {}
        self.events.add("attempt-ended", attempt=number, **how)
        record = state.read(self.run)
        return derive.outcome(record, record.attempts[-1]).to_json()

    def _follow(self, attempt: AttemptDir) -> list[int]:
        """Waits for all nodes to end, and tells them to stop when somebody or something asks for it; returns those lost."""
        lost: list[int] = []  # nodes that ended without a record of it
        running = set(range(self.job.nodes + self.job.ps))
        patience = Patience(attempt, self.job.grace)
        while running:
            self._look()  # before the site does: the signal of a child that ends in between has to wake the wait below
            if self.stop is None and read_object(attempt.meet + "/told"):
                self._say_farewell("SIGTERM")
            for event in self.site.ended(attempt):
                running.discard(event.node)
                if event.lost:
                    lost.append(event.node)
                    self._lost(attempt, event.node, event.lost)
            if self.stop is not None:
                self._tell(attempt, self.stop)
            if doomed := patience.over(running, self.kill):
                self.site.kill(doomed)
            if running:
                self._wait(_until(self.deadline, patience.until, _after(self.site.pause)), self.site.filenos())
        return lost

    def _lost(self, attempt: AttemptDir, node: int, how: str) -> None:
        self.events.add("lost", attempt=attempt.number, node=node, reason=how)
        self._tell(attempt, {"cause": "lost", "reason": f"the agent of node {node} {how}", "node": node})

    def _tell(self, attempt: AttemptDir, stop: dict[str, Any]) -> None:
        if attempt.number not in self.told:
            self.told.add(attempt.number)
            write_once(attempt.meet + "/stop", dict({"grace": self.job.grace}, **stop))

    # -- what happens meanwhile

    def _look(self) -> None:
        """Takes in signals, requests to stop, the loss of the command, and the passing of time."""
        signals = self.signals.take() & ENDING
        self.watch.drain()
        if not os.path.isdir(self.run.path):
            os._exit(1)  # somebody has deleted the record; agents and ranks end with this process
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
            self.stop = {"cause": cause, "reason": reason, "grace": self.job.grace if grace is None else grace}
            self.events.add("stopping", cause=cause, reason=reason)

    def _wait(self, timeout: float | None, others: list[int] | None = None) -> None:
        readers = [self.signals.fileno(), *(others or [])]
        if self.command is not None:
            readers.append(self.command)
        if self.watch.polling:
            timeout = min(0.1, timeout or 0.1)
        else:
            readers.append(self.watch.fileno())
        readable(readers, timeout)


class Patience:
    """How long an attempt that was stopped is waited for: as long as its ranks have, and nodes upload."""

    def __init__(self, attempt: AttemptDir, grace: float) -> None:
        self.attempt = attempt
        self.grace = grace
        self.until: float | None = None  # when somebody has to be killed, once the gang is stopped
        self._told_kill = False
        self._recorded: set[int] = set()  # nodes that are known to have recorded their ends
        self._lingering = False  # whether all running nodes have recorded their ends

    def over(self, running: set[int], kill: bool) -> list[int]:
        """The nodes that are to be killed now."""
        now = time.monotonic()
        if kill and not self._told_kill:
            write_once(self.attempt.meet + "/kill", {})
            self._told_kill = True
            self.until = now + KILL_LIMIT
        if self.until is None and os.path.lexists(self.attempt.meet + "/stop"):
            grace = number(read_object(self.attempt.meet + "/stop").get("grace"))
            self.until = now + (self.grace if grace is None else min(grace, self.grace)) + KILL_LIMIT
        if self.until is not None and not self._lingering and self._all_recorded(running):
            self._lingering = True
            self.until = min(self.until, now + LINGER_LIMIT)
        if self.until is None or now < self.until:
            return []
        self.until = now + 1.0  # one that cannot die yet is looked at again
        return [node for node in running if kill or not _uploading(self.attempt, node)]

    def _all_recorded(self, running: set[int]) -> bool:
        """Whether all nodes that are left have recorded their ends, of which their site may know later or never."""
        for node in running - self._recorded:
            if not left_record(self.attempt, node):
                return False
            self._recorded.add(node)
        return True


def _be_reader(run: RunDir) -> NoReturn:
    """Never returns: this process writes the final record of a run that has succeeded, and ends."""
    code = 1
    try:
        syscalls.die_with_parent()
        signal.set_wakeup_fd(-1)  # it is the supervisor's
        final.conclude(run)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _how_reading_failed(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"the process that read it was killed ({signal_name(os.WTERMSIG(status))})"
    return "the process that read it failed; supervisor.log says how" if os.WEXITSTATUS(status) else ""


def _may_start_again(ending: dict[str, Any]) -> bool:
    """Whether a run was interrupted, and did not end: by its site, or with a machine that is gone."""
    return ending["cause"] in INTERRUPTED and ending.get("state") != "failed"


def _uploading(attempt: AttemptDir, node: int) -> bool:
    """Whether a node saves its outputs, which takes the time that it takes."""
    return os.path.lexists(f"{attempt.meet}/uploading.{node}") and not left_record(attempt, node)


def _until(*moments: float | None) -> float | None:
    given = [moment for moment in moments if moment is not None]
    return max(0.0, min(given) - time.monotonic()) if given else None


def _after(pause: float | None) -> float | None:
    return None if pause is None else time.monotonic() + pause

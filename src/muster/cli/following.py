"""Following a run: what its ranks write, and messages between their lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from muster.cli import output
from muster.cli.screen import Lines, Live
from muster.cli.summary import show_retry
from muster.launch import names
from muster.launch.any_run import GOES_ON, POLL, AnyRun
from muster.records.run_view import RunView, State

TICK = 0.25


def follow(run: AnyRun, json: bool, leaving: Callable[[], bool] = lambda: False) -> RunView:
    """Shows what a run writes until it ends or `leaving` says that the user leaves it; returns its view then."""
    live = sys.stdout.isatty() and not json and os.environ.get("TERM") != "dumb"
    shown: Lines | Live = Live() if live else Lines(sys.stderr.buffer if json else sys.stdout.buffer)
    if not live and not json:
        output.say(f"run {run.id}")
    story = Story(run, shown, live)
    with run.follower(lambda attempt, process: not names.in_background(process)) as follower:
        try:
            for chunk in run.pieces(follower, TICK if live else POLL):
                story.go_on(chunk.attempt if chunk is not None else None)
                if chunk is not None:
                    shown.show(chunk)
                if isinstance(shown, Live) and shown.due:
                    shown.draw(run.peek())
                if leaving():
                    break
            story.go_on(None)
        finally:
            shown.close()
    return run.view


class Story:
    """Messages between the lines of the ranks: whom the run waits for, and attempts that failed."""

    def __init__(self, run: AnyRun, shown: Lines | Live, live: bool) -> None:
        self._run = run
        self._shown = shown
        self._live = live  # whether a live line shows whom the run waits for
        self._attempt = 1
        self._waiting = ""
        self._trouble = ""
        self._halted = ""
        self._sharing = bool(run.job.compat)  # whether it matters what nodes share, and is not known yet
        self._exposure: str | None = None  # what is to be said of its keys, once that is known

    def go_on(self, attempt: int | None) -> None:
        """Prints what is new; `attempt` is the one whose output comes next, if any."""
        if self._sharing:
            self._warn_of_sharing()
        if self._exposure is None:
            self._exposure = self._run.exposed_keys()
            if self._exposure:
                self._shown.interlude()
                output.say(self._exposure)
        newest = attempt or (self._run.attempt_numbers() or [1])[-1]
        if newest > self._attempt:
            self._shown.interlude()
            ended = self._run.outcomes()[: newest - 1]
            free = sum(1 for one in ended if one.state is not State.FAILED)  # those cost no retry
            show_retry(ended[self._attempt - 1 :], self._run.job.retries + 1 + free, self._live)
            self._attempt = newest
        if self._run.trouble != self._trouble:
            self._trouble = self._run.trouble
            if self._live:
                self._shown.interlude()  # elsewhere lines stay whole: they go on behind a broken connection
            output.say(f"{self._trouble}; the run goes on" if self._trouble else f"{self._run.asked} answers again")
        if self._run.halted != self._halted:
            self._halted = self._run.halted
            self._shown.interlude()
            output.say(self._halted or GOES_ON)
        if attempt is None and not self._live:
            view = self._run.peek()
            if view.state is State.PENDING and view.reason not in ("", self._waiting):
                self._waiting = view.reason
                output.say(self._waiting)

    def _warn_of_sharing(self) -> None:
        """A script of another platform counts on directories that a node has for itself."""
        events = self._run.node_events()
        if events is None:
            self._sharing = False
            return
        from muster.agent.sandbox.rootfs import PRIVATE
        from muster.plan import compat

        job = self._run.job
        place = "attempts/*/root" if compat.of(job).shared else "attempts/*/nodes/*/root"
        for event in events:
            self._sharing = False
            if not event["contained"]:
                self._shown.interlude()
                output.say(
                    f"nodes share {', '.join(PRIVATE)}, host name and process ids with this machine, for there are no "
                    f"namespaces ({event['reason']}); paths of {job.compat} lie in {place}"
                )

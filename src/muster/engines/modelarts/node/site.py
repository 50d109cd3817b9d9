"""The site of a supervisor whose nodes are those of a training job in ModelArts.

There is no agent of Muster's on the nodes: a thread asks the service, and what it says becomes the records of the nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress

from muster.agent.supervisor.own_site import OwnSite
from muster.agent.supervisor.site import Assignment, Cut, NodeEnded, NotReady
from muster.channel.base import SupervisorChannel
from muster.channel.directory import DirectorySupervisor
from muster.engines.modelarts.node import jobs, request
from muster.engines.modelarts.node.account import Account
from muster.engines.modelarts.node.arbiter import JobArbiter
from muster.engines.modelarts.node.client import Client
from muster.engines.modelarts.node.inside.carried import has_agent
from muster.engines.modelarts.node.journal import Journal
from muster.engines.modelarts.node.records import NodeRecords
from muster.engines.modelarts.node.shown import LOST, RUNNING, STOPPED, STOPPING, SUCCEEDED, Shown
from muster.engines.modelarts.node.stored_record import End
from muster.engines.modelarts.node.transfers import Transfers
from muster.engines.modelarts.node.watcher import Watcher
from muster.linux import keys
from muster.records import clocks
from muster.records.files import Events, read_object
from muster.records.layout import AttemptDir, RunDir
from muster.records.logs import last_lines
from muster.records.run_view import Cause, Stop
from muster.storage import Settings

CLOSE_LIMIT = 120.0  # for a job that was withdrawn from the queue to be gone
LEFT = 3  # the exit code of a supervisor whose job goes on without it
LAST_LINES = 3  # of the service's log, in a reason
ELSEWHERE = "it was stopped in ModelArts, not by Muster"


class NotStopped(Exception):
    """A job of which it is not known that it ends; `muster reconcile` sees to that."""


class JobChannel(DirectorySupervisor):
    """The channel of an attempt, whose stop ends the job in the service."""

    def __init__(self, run: RunDir, attempt: AttemptDir, count: int, site: ModelArtsSite) -> None:
        super().__init__(run, attempt, count)
        self._site = site

    def announce(self, topic: str, data: dict[str, object]) -> None:
        super().announce(topic, data)
        if topic in ("stop", "kill"):
            self._site.terminate()

    def progress(self) -> object:
        """What nobody can see is no silence: it begins when the logs can be read again."""
        return time.monotonic() if self._site.is_blind() else super().progress()


class ModelArtsSite(OwnSite):
    nodes_return = True  # the service finds others
    queues = True
    arbiter = JobArbiter

    def __init__(self, assignment: Assignment, events: Events) -> None:
        self.assignment = assignment
        self.job = assignment.job
        self.events = events
        self._watcher: Watcher | None = None
        self._records: NodeRecords | None = None
        self._published = False  # whether the end of the job was published
        self._reported = False
        self._cut: Cut | None = None  # how the job was lost

    # -- before an attempt

    def ready(self) -> bool:
        """Has the job created, and waits for its turn in the queue of the service."""
        watcher = self._watcher or self._watch((self.assignment.run.attempt_numbers() or [0])[-1] + 1)
        self._drain(watcher)
        if watcher.refused:
            raise NotReady(watcher.refused)
        self.reason = watcher.reason
        shown = watcher.shown
        return shown is not None and (shown.state in (RUNNING, STOPPING) or shown.over)

    def _watch(self, attempt: int) -> Watcher:
        given = keys.read()
        client = Client(Account.from_json(given[keys.SERVICE]))
        run = self.assignment.run
        self._watcher = Watcher(
            self.job,
            run.id,
            attempt,
            client,
            jobs.of(client, request.version(self.job)),
            Journal(run),
            Transfers(self.job, self.assignment.code, Settings.from_json(given[keys.STORAGE]), self.assignment.tools.archive),
        )
        self._watcher.start()
        return self._watcher

    def _drain(self, watcher: Watcher) -> None:
        with suppress(BlockingIOError):
            os.read(watcher.woken, 4096)
        if watcher.leaves:
            self._go(watcher.leaves)

    def _go(self, reason: str) -> None:
        """Ends this process: the job goes on, and `muster reconcile` starts another supervisor for it."""
        self.events.add("told-to-end", cause=Cause.LOST.value, reason=reason)
        print(reason, flush=True)
        os._exit(LEFT)

    def filenos(self) -> list[int]:
        return [self._watcher.woken] if self._watcher is not None else []

    def channel(self, assignment: Assignment, attempt: AttemptDir) -> SupervisorChannel:
        return JobChannel(assignment.run, attempt, assignment.count, self)

    def resume(self, attempt: AttemptDir) -> bool:
        """Takes over the job of an attempt, which goes on without a supervisor."""
        if not Journal(self.assignment.run).name(attempt.number):
            return False
        self._watch(attempt.number)
        self._begin(attempt)
        return True

    # -- an attempt

    def start(self, attempt: AttemptDir) -> None:
        self._begin(attempt)

    def _begin(self, attempt: AttemptDir) -> None:
        assert self._watcher is not None
        self._records = NodeRecords(attempt, self.job, has_agent(self.job))
        self._published = self._reported = False
        self._cut = None
        self._records.prepare()
        self._watcher.begin(attempt)

    def terminate(self) -> None:
        if self._watcher is not None:
            self._watcher.terminate()

    def is_blind(self) -> bool:
        return self._watcher is not None and self._watcher.is_blind

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        watcher, records = self._watcher, self._records
        assert watcher is not None and records is not None
        self._drain(watcher)
        if watcher.reason != self.reason:
            self.reason = watcher.reason
            self.events.add("service", attempt=attempt.number, reason=self.reason)
        over, shown = watcher.over, watcher.shown  # in this order: what is shown last is shown before it is over
        stop = Stop.from_json(read_object(attempt.stop)) if os.path.lexists(attempt.stop) else None
        if stop is not None:
            self.terminate()  # also after a supervisor that had announced it was cut off
        if watcher.refused and not self._reported:
            return self._lose(watcher.refused)
        if shown is None:
            return []
        if shown.state != "queued" and not records.is_up() and not records.brought:
            records.up(shown, watcher.hosts)
        return self._report(attempt, watcher, records, shown, stop) if over else []

    def _report(
        self, attempt: AttemptDir, watcher: Watcher, records: NodeRecords, shown: Shown, stop: Stop | None
    ) -> list[NodeEnded]:
        """The end of the job: published first, for the cause of the stop to follow from it, then recorded."""
        if self._reported:
            return []
        if shown.state == LOST and stop is None:
            return self._lose(f"the job was lost in ModelArts: {shown.words}")
        end = watcher.record.end if watcher.record is not None else None
        lost = dict(end.lost) if stop is None and end is not None and shown.state != STOPPED else {}
        if stop is None and not lost:
            if not self._published:
                self._published = True
                self._publish(attempt, records, shown, end)
            return []
        self._reported = True
        for node, ahead in end.clocks if end is not None else ():
            self.events.add(clocks.EVENT, attempt=attempt.number, node=node, ahead=ahead)
        if watcher.left:
            self.events.add("outputs-left", attempt=attempt.number, reason=watcher.left)
        if stop is None and end is not None:
            self._cut = Cut(end.cut or end.reason)
        else:
            records.end(shown, stop or Stop(Cause.UNKNOWN), watcher.unsaved)
        return [NodeEnded(node, lost.get(node, "")) for node in range(self.assignment.count)]

    def _publish(self, attempt: AttemptDir, records: NodeRecords, shown: Shown, end: End | None) -> None:
        if shown.state == STOPPED:
            said = f": {shown.said}" if shown.said else ""
            records.request_stop(Stop(Cause.TERMINATED, f"{ELSEWHERE}{said}"))
        elif end is not None and end.stop is not None and end.stop.cause not in (Cause.FINISHED, Cause.FAILURE):
            records.request_stop(end.stop)
        elif end is not None and (failed := [node for node in end.failures if records.has(node, "failed")]):
            for node in failed:
                records.show(node, "failed")
        elif shown.state == SUCCEEDED:
            records.done()
        else:
            records.failed(shown, self._last_words(attempt, shown, end) if records.brought else "")

    def _last_words(self, attempt: AttemptDir, shown: Shown, end: End | None) -> str:
        """Why a job failed whose agent does not say which rank was the cause."""
        assert self._watcher is not None
        record = self._watcher.record
        if end is not None and end.stop is not None and end.stop.cause is Cause.FINISHED:
            return f"{shown.words}, after its ranks had succeeded"
        if end is not None and end.reason:
            return end.reason
        if record is not None and record.broken:
            return record.broken
        said = last_lines(attempt.node(0).service_log, LAST_LINES)
        where = "Muster's agent left no whole record" if record is not None and record.begun else "Muster's agent did not start"
        log = f"; the log of worker-0 ends: {' | '.join(said)}" if said else ""
        return f"{shown.words}; {where}{log}"

    def _lose(self, reason: str) -> list[NodeEnded]:
        self._reported = True
        self._cut = Cut(reason)
        return [NodeEnded(node, reason) for node in range(self.assignment.count)]

    def verdict(self, attempt: AttemptDir) -> Cut | None:
        return self._cut

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        return Cut("its supervisor was cut off before it had a job in ModelArts")

    def kill(self, nodes: Collection[int]) -> None:
        """The service alone can end a job: it was told to."""
        self.terminate()

    def sweep(self, attempt: AttemptDir) -> None:
        """The next attempt has a job of its own."""
        watcher = self._watcher
        if watcher is not None and watcher.over:
            watcher.close()
            self._watcher = None

    def farewell(self, signal_name: str) -> Stop:
        """A signal is for this process: a job in the service goes on, unless the run was stopped."""
        run = self.assignment.run
        if not os.path.exists(run.stop) and not os.path.exists(run.kill) and Journal(run).attempts:
            self._go(f"its supervisor was told to end ({signal_name}); its job goes on in ModelArts")
        return super().farewell(signal_name)

    def close(self, keep: bool = False) -> None:
        """Withdraws a job that waits in the queue of the service. Raises NotStopped where that is not known to be done."""
        watcher = self._watcher
        if watcher is None:
            return
        watcher.terminate()
        deadline = time.monotonic() + CLOSE_LIMIT
        while not watcher.over and time.monotonic() < deadline and not os.path.exists(self.assignment.run.kill):
            watcher.join(0.1)
        if not watcher.over:
            watcher.give_up()
            raise NotStopped("ModelArts did not say that the job has ended; `muster reconcile` asks it again")
        if watcher.leaves:
            raise NotStopped(watcher.leaves)
        watcher.close()

"""Decides, alone, what is announced to the nodes of an attempt: the world, that all are ready, why they have to stop; and when
stopped ones are killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from muster.agent.node.collector import notes
from muster.agent.ssh import server
from muster.agent.supervisor.site import Assignment
from muster.channel.base import Message, SupervisorChannel
from muster.dataclass import replace
from muster.plan import NodeInfo, PlanError, World, assemble, runners, world_files
from muster.records import endpoints
from muster.records.files import Events, read_object, write_text
from muster.records.layout import AttemptDir
from muster.records.run_view import Cause, Stop, is_failure
from muster.records.text.units import duration

GATHER_LIMIT = 120.0  # for all nodes to publish their facts
LEFTOVER_GRACE = 5.0  # for helpers and forgotten children once the ranks are done
KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace
LINGER_LIMIT = 5.0  # for nodes to be gone once all of them have recorded their ends
MOST_NAMED = 20  # nodes in a reason
HELD = (Cause.FAILURE, Cause.SILENT)  # causes after which nodes are kept, where the job asks for it
REQUESTS = (Cause.TIME_LIMIT, Cause.LOST)  # causes for which a node may have the gang stopped
SETTLE = 0.1  # between the first failure and the stop that it causes
FAILURE = ("kind", "process", "rank", "code", "signal", "message", "used", "limit", "oom", "oom_before")  # fields


class Arbiter:
    def __init__(
        self,
        assignment: Assignment,
        attempt: AttemptDir,
        channel: SupervisorChannel,
        events: Events,
        hold: Callable[[Stop], float] = lambda stop: 0.0,
    ) -> None:
        """`hold` returns for how many seconds the nodes are kept after such a stop."""
        self.stop: Stop | None = None  # as it was announced
        self.terminated: Stop | None = None  # the request of an agent that got SIGTERM
        self._run = assignment.run
        self._job = assignment.job
        self._count = assignment.count
        self._attempt = attempt
        self._channel = channel
        self._events = events
        self._hold = hold
        self._released = False
        self._world: World | None = None
        self._ready = False
        self._gather_until: float | None = time.monotonic() + GATHER_LIMIT
        self._settled: tuple[float, str] | None = None  # when a failure stops the gang, and which
        self._silence: Silence | None = None

    def begin(self) -> None:
        """Makes what nodes need beside the world, while they start."""
        if not self._job.has_keys:
            return
        keys = {endpoints.KEY: os.urandom(32).hex()}
        try:
            keys.update(server.make_keys(self._attempt.ssh) if self._job.ssh or self._job.login else {})
        except PlanError as error:
            if self._job.ssh:
                self._learn(0, {"kind": "plan", "message": str(error)})
                return
        self._channel.announce("keys", keys)

    def resume(self) -> None:
        """Goes on from what an earlier supervisor has announced."""
        if world := read_object(self._attempt.world):
            self._use(World.from_json(world))
        self._ready = os.path.lexists(f"{self._attempt.meet}/ready")
        if stop := read_object(self._attempt.stop):
            self.stop = Stop.from_json(stop)

    @property
    def moments(self) -> tuple[float | None, ...]:
        """When `decide` has something to do although no node publishes anything."""
        if self.stop is not None:
            return ()
        silence = self._silence.next if self._silence else None
        return self._gather_until, silence, self._settled[0] if self._settled else None

    def decide(self) -> None:
        """Takes in what nodes published, and announces what follows from it."""
        for message in self._channel.news():
            self._take(message)
        if self.stop is not None:
            return
        if self._world is None:
            self._gather()
        elif not self._ready and len(self._channel.published("ready")) == self._count:
            self._ready = True
            self._channel.announce("ready", {})
        if self._all_done() and not self.terminated:
            self.announce_stop(Stop(Cause.FINISHED, "all ranks are done", LEFTOVER_GRACE))
        elif self._settled and time.monotonic() >= self._settled[0]:
            self.announce_stop(Stop(Cause.FAILURE, self._settled[1], self._job.grace))
        elif self._silence and self._silence.is_over():
            reason = f"nothing was written for {duration(self._silence.limit)} (silent_limit)"
            self.announce_stop(Stop(Cause.SILENT, reason, self._job.grace))

    def _all_done(self) -> bool:
        """True if all nodes with ranks have said that these are done."""
        return self._world is not None and len(self._channel.published("done")) == runners(self._job, self._world)

    def announce_stop(self, stop: Stop) -> None:
        """Announces that the gang has to stop; the first call counts."""
        if self.stop is None:
            if stop.cause is Cause.PREEMPTED and self._settled:  # a failure before it is no consequence of it
                stop = Stop(Cause.FAILURE, self._settled[1], stop.grace)
            hold = self._hold(stop) if stop.cause in HELD else 0.0
            self.stop = replace(stop, grace=min(stop.grace, self._job.grace), hold=hold)
            self._channel.announce("stop", self.stop.to_json())

    def release(self) -> None:
        """Ends the time for which nodes are kept, also before it has begun."""
        if self.stop is not None and self.stop.hold and not self._released:
            self._released = True
            self._channel.announce("release", {})

    def _take(self, message: Message) -> None:
        if message.topic == "failed":
            self._learn(message.node, message.data)
        elif message.topic == "stop-request":
            stop = Stop.from_json(message.data)
            if stop.cause is Cause.TERMINATED:
                self.terminated = self.terminated or stop
            elif stop.cause in REQUESTS:
                self.announce_stop(stop)

    def _learn(self, node: int, failure: dict[str, Any]) -> None:
        """Notes a failure in the order of learning. The first one stops the gang, once others that fail as well are heard."""
        known = {name: failure[name] for name in FAILURE if name in failure}
        if not is_failure({**known, "node": node}):  # a rank has written it
            known = {"kind": "plan", "message": f"node {node} published a failure that cannot be read"}
        self._events.add("failure", attempt=self._attempt.number, node=node, **known)
        if self._settled is None:
            self._settled = (time.monotonic() + SETTLE, "{} failed".format(known.get("process") or "a node"))

    def _gather(self) -> None:
        """Announces the world once all nodes have published their facts, and the first what lay at outputs before."""
        facts = self._channel.published("facts")
        if len(facts) < self._count:
            if self._gather_until is not None and time.monotonic() >= self._gather_until:
                missing = [str(node) for node in range(self._count) if node not in facts][:MOST_NAMED]
                reason = f"node {', '.join(missing)} did not report within {duration(GATHER_LIMIT)}"
                self.announce_stop(Stop(Cause.RENDEZVOUS, reason, self._job.grace))
            return
        self._gather_until = None
        if notes(self._job) and not self._channel.published("noted"):  # a store takes the time that it takes
            return
        infos = self._infos(facts)
        if len(infos) < self._count:
            return
        world = assemble(self._job, self._run.id, self._attempt.number, infos)
        self._channel.announce("world", world.to_json())
        for path, text in world_files(self._job, world, self._attempt.path).items():
            write_text(path, text)  # for people: each node has its own
        self._use(world)

    def _infos(self, facts: Mapping[int, dict[str, Any]]) -> list[NodeInfo]:
        """The facts of the nodes, without those that cannot be read, which are a failure of their node."""
        found = []
        for node, data in facts.items():
            try:
                found.append(NodeInfo.read(node, data))
            except ValueError:
                if self._settled is None:
                    self._learn(node, {"kind": "plan", "message": f"node {node} published facts that cannot be read"})
        return found

    def _use(self, world: World) -> None:
        self._world, self._gather_until = world, None
        if self._job.silent_limit:
            self._silence = Silence(self._channel, self._job.silent_limit)


class Silence:
    """Notices that ranks have written nothing for too long."""

    def __init__(self, channel: SupervisorChannel, limit: float) -> None:
        self.limit = limit
        self.next = 0.0  # when to look again
        self._channel = channel
        self._last: object = None
        self._since = time.monotonic()

    def is_over(self) -> bool:
        now = time.monotonic()
        if now < self.next:
            return False
        self.next = now + min(30.0, max(0.02, self.limit / 8))
        progress = self._channel.progress()
        if progress != self._last:
            self._last, self._since = progress, now
        return now - self._since >= self.limit


class Patience:
    """Decides when the nodes of a stopped attempt are killed: not while ranks have grace or nodes upload."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self.until: float | None = None  # when nodes have to be killed, once the gang is stopped
        self._channel = channel
        self._kill_announced = False
        self._recorded: set[int] = set()  # nodes that are known to have recorded their ends
        self._lingering = False  # whether all running nodes have recorded their ends

    def over(self, running: set[int], stop: Stop | None, kill: bool) -> list[int]:
        """The nodes that have to be killed now."""
        now = time.monotonic()
        if kill and not self._kill_announced:
            self._channel.announce("kill", {})
            self._kill_announced = True
            self.until = now + KILL_LIMIT
        if self.until is None and stop is not None:
            self.until = now + stop.grace + stop.hold + KILL_LIMIT
        if self.until is not None and not self._lingering and self._all_recorded(running):
            self._lingering = True
            self.until = min(self.until, now + LINGER_LIMIT)
        if self.until is None or now < self.until:
            return []
        self.until = now + 1.0  # one that cannot die yet is looked at again
        return [node for node in running if kill or not self._uploading(node)]

    def _uploading(self, node: int) -> bool:
        """True if a node saves its outputs, which takes the time that it takes."""
        return node in self._channel.published("uploading") and not self._channel.has_ended(node)

    def _all_recorded(self, running: set[int]) -> bool:
        """True if all nodes that are left have recorded their ends, of which their site may know later or never."""
        for node in running - self._recorded:
            if not self._channel.has_ended(node):
                return False
            self._recorded.add(node)
        return True

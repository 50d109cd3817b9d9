"""The node of a run on its host, as its daemon sees it: its job and code, its devices, and the agent of the current attempt."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Callable

from muster.agent.node import environment
from muster.agent.node.processes import Processes
from muster.agent.sandbox import agent_process, memory
from muster.agent.supervisor import device_locks
from muster.agent.supervisor.site import Assignment
from muster.agent.tools import Tools
from muster.channel.directory import DirectorySupervisor
from muster.channel.stream.frames import Broken, Frame
from muster.channel.stream.source import Source
from muster.dataclass import replace
from muster.devices import resolve
from muster.engines.local.node.leftovers import kill_marked
from muster.engines.ssh.node import addresses
from muster.engines.ssh.node.host.agent import run_agent
from muster.engines.ssh.node.host.code import Code
from muster.engines.ssh.node.host.paths import HostPaths, prune
from muster.job import Job
from muster.linux import keys, syscalls
from muster.linux.held_signals import held
from muster.linux.signals import reap_children
from muster.linux.watch import readable
from muster.records.files import delete_tree, read_object, write_json, write_text
from muster.records.layout import AttemptDir, run_dir
from muster.records.run_view import Cause, Stop
from muster.storage.settings import Access, Settings

DELIVERED = "delivered"  # a file in the directory of an attempt's node
SHOWN = 20  # files that are named of those that cannot be sent
USED = 3600.0  # seconds after which the agent is said to be in use again
KILL_LIMIT = 10.0  # for an agent to end after its ranks' grace
LOOK_PAUSE = 2.0  # between two looks at the devices' own process lists
DROPPED = ("SSH_", "MUSTER_RUN", "MUSTER_KEYS", "MUSTER_POWER")  # of the session, or of a run from which this one was started


class HostNode:
    """`say` sends a message to the supervisor's side, if it is connected; `store` is a socket that leads to its files."""

    def __init__(self, paths: HostPaths, node: int, say: Callable[..., None], store: str) -> None:
        self._paths = paths
        self._index = node
        self._say = say
        self._store = store
        self._place = addresses.here()
        self._job: Job | None = None
        self._settings: Mapping[str, Any] = {}
        self._code = Code(paths, say)
        self._queue: device_locks.Queue | None = None
        self._devices: device_locks.Held | None = None
        self._look_again: float | None = None  # for devices that others have
        self._attempt: AttemptDir | None = None
        self._channel: DirectorySupervisor | None = None
        self._announced: set[str] = set()
        self._source: Source | None = None
        self._agent = 0  # its process id while it runs
        self._tie = -1  # a pipe: the agent sees its end when this process is gone
        self._status: int | None = None  # how it ended
        self._told = False  # whether the supervisor's side knows that it ended
        self._kill_at: float | None = None
        self._cut = False
        self._used = time.monotonic()  # when the agent was last said to be in use

    # -- what the daemon asks

    @property
    def running(self) -> bool:
        return self._agent != 0

    @property
    def started(self) -> bool:
        """True from the first attempt on."""
        return self._attempt is not None

    @property
    def disposable(self) -> bool:
        """True if nothing is left here of any attempt that the supervisor's side or a store does not have."""
        run = self._paths.run
        folders = [run.attempt(number).node(self._index).path for number in run.attempt_numbers()]
        return all(os.path.exists(f"{folder}/{DELIVERED}") for folder in folders if os.path.isdir(folder))

    @property
    def polling(self) -> bool:
        return self._source is not None and self._source.polling

    def filenos(self) -> list[int]:
        waiting = self._queue.filenos() if self._queue else []
        return [*waiting, *([self._source.fileno()] if self._source and not self._source.polling else [])]

    def hello(self) -> dict[str, Any]:
        attempt = self._attempt.number if self._attempt else 0
        place, system = self._place.to_json(), os.uname()
        own = {"host": system.nodename, "machine": system.machine, "place": place}
        return {**own, "attempt": attempt, "running": self.running}

    def disconnected(self) -> None:
        self._code.drop()
        self._have = False
        if not self.started:  # its submitter may be gone, and others wait
            self.let_go()

    _have = False  # whether this connection's other side has said what it has of the attempt

    # -- the run

    def begin(self, given: Mapping[str, Any]) -> None:
        """Takes the run over: its job, settings and environment, and the digest of its code."""
        if self._job is None:
            self._settings = given
            self._job = Job.from_json(dict(given["job"]))
            write_json(self._paths.run.job, given["job"])
            self._share("shared")
            os.makedirs(f"{self._paths.home}/store", 0o700, exist_ok=True)
            own = {name: value for name, value in environment.given().items() if not name.startswith(DROPPED)}
            found = str(keys.put_away(self._keys(given["keys"], given["certificates"])))
            environment.replace({**own, **given["environment"], keys.VARIABLE: found})
            syscalls.adopt_orphans()
            prune(self._paths)
        self._code.unpack(str(self._settings["code"]))

    def take_blob(self, frame: Frame) -> None:
        """Takes in a piece of the code."""
        self._known_job()
        self._code.take(frame)

    def _keys(self, given: Mapping[str, str], certificates: Mapping[str, str]) -> dict[str, str]:
        """The keys of the run, with the settings of storage as they are on this host; `certificates` are texts of files."""
        places = {path: f"{self._paths.run.path}/ca-{number}.pem" for number, path in enumerate(certificates)}
        for path, place in places.items():
            write_text(place, certificates[path])
        storage = Settings.from_json(given[keys.STORAGE]).with_certificates(places)
        submitter = Access("http://submitter", "us-east-1", socket=self._store, timeout=float(self._settings["patience"]))
        return {**given, keys.STORAGE: replace(storage, home=self._paths.home).through(submitter).to_json()}

    def _share(self, name: str) -> None:
        """Makes a directory of the run that ranks share: of this host alone, or where the group of hosts has one for all."""
        path, place = f"{self._paths.run.path}/{name}", str(self._settings["shared"])
        if os.path.lexists(path):
            return
        target = path
        if place:  # where the run has it, too, if the submitter's own home is meant
            target = f"{run_dir(os.path.expanduser(place), self._paths.run.id).path}/{name}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        os.makedirs(target, 0o700, exist_ok=True)

    # -- devices and address

    def hold(self, peer: str, nodes: int) -> None:
        """Takes the devices of this node, or says who has them; with a peer, tells the address on the route to it, too.

        This machine has `nodes` nodes of the run: it may be known by several names.
        """
        queue = self._open_queue()
        if queue is not None and (lacking := queue.lacking()):
            self._say("unfit", reason=f"the job {lacking}")
        elif queue is not None and (lacking := queue.lacking(nodes)):
            self._say("unfit", reason=f"the job {lacking}", together=True)
        elif queue is not None and not self._take_devices(queue):
            self._look_again = time.monotonic() + LOOK_PAUSE
            self._say("busy", reason=queue.reason)
        else:
            self._say("held", address=addresses.source(peer) if peer else "")

    def _open_queue(self) -> device_locks.Queue | None:
        """The queue for the devices of this node; None where it has what it needs."""
        job = self._known_job()
        if self._devices is not None or self._index >= job.nodes:
            return None
        given = device_locks.GIVEN in environment.given()
        self._queue = self._queue or device_locks.Queue(resolve(job.device), 1, job.devices, given=given)
        return self._queue

    def _take_devices(self, queue: device_locks.Queue) -> bool:
        self._devices = queue.take()
        if self._devices is not None:
            queue.close()
        return self._devices is not None

    def let_go(self) -> None:
        """Gives the devices back, and stops waiting for them."""
        self._look_again = None
        if self._queue is not None:
            self._queue.close()
        if self._devices is not None:
            self._devices.close()
            self._devices = None

    def _look_for_devices(self) -> None:
        """Tells when devices that were waited for could be had; whom else they wait for, before."""
        queue, now = self._queue, time.monotonic()
        if self._look_again is None or queue is None or (now < self._look_again and not readable(queue.filenos(), 0)):
            return
        before = queue.reason
        found = queue.take()
        self._look_again = None if found else now + LOOK_PAUSE
        if found is not None:
            found.close()
            self._say("free")
        elif queue.reason != before:
            self._say("busy", reason=queue.reason)

    # -- an attempt

    def start(self, attempt: int, nodes: list[list[str]], left: float | None, count: int) -> None:
        """Starts the agent of an attempt; `nodes` are names and addresses, `left` the seconds of the time limit."""
        if self._attempt is not None and self._attempt.number == attempt:
            return  # said again on a new connection
        self._end_earlier()
        if os.path.isdir(self._paths.run.attempt(attempt).node(self._index).path):  # by an earlier daemon, which was killed
            self._take_up(attempt)
            return
        queue = self._open_queue()
        if queue is not None and not self._take_devices(queue):  # those that were held were let go with a lost connection
            self._say("unfit", reason=queue.reason)
            return
        self._look_at(attempt)
        assert self._attempt is not None and self._channel is None
        self._share(os.path.relpath(self._attempt.root, self._paths.run.path))
        self._channel = DirectorySupervisor(self._paths.run, self._attempt, count)
        job, run = self._known_job(), self._paths.run
        tools = Tools(os.path.realpath("/proc/self/exe"), self._archive())
        assignment = Assignment(run, job, self._paths.code, tools, bool(self._settings["namespaces"]))
        deadline = None if left is None else time.monotonic() + left
        devices = self._devices.nodes[0] if self._devices is not None else []
        reader, self._tie = os.pipe2(os.O_CLOEXEC)
        names = [(name, address) for name, address in nodes]
        action = partial(run_agent, assignment, self._attempt, self._index, names, devices, reader, deadline)
        with held():
            self._agent = os.fork()
            if self._agent == 0:
                os.close(self._tie)
                agent_process.be_agent(action)
        os.close(reader)

    def _end_earlier(self) -> None:
        """Ends an agent whose time has passed for the supervisor: this host may have stood still for longer than that."""
        if self.running:
            self.kill()
            self._ended(os.waitpid(self._agent, 0)[1])

    def _archive(self) -> str:
        return self._paths.blob(str(self._settings["agent"]))

    def _look_at(self, attempt: int, salvaged: bool = False) -> None:
        """Makes an attempt the one whose files are sent; `salvaged` are those of an earlier daemon."""
        if self._source is not None:
            self._source.close()
        self._attempt = self._paths.run.attempt(attempt)
        os.makedirs(self._attempt.node(self._index).logs, exist_ok=True)
        self._source = Source(self._attempt.node(self._index).path, salvaged)
        self._channel, self._announced = None, set()
        self._status, self._told, self._kill_at, self._cut, self._have = None, False, None, False, False
        self._say("attempt", attempt=attempt)

    def deliver(self, attempt: int) -> None:
        """Sends what is left of an attempt whose agent died with an earlier daemon."""
        if self._attempt is None or self._attempt.number != attempt:
            self._take_up(attempt)
        else:
            self._say("attempt", attempt=attempt)

    def _take_up(self, attempt: int) -> None:
        """Sends what is left of an attempt of an earlier daemon, which was killed; nobody writes to it any more."""
        self._kill_left()
        self._look_at(attempt, salvaged=True)
        assert self._source is not None
        self._source.finish()

    def have(self, attempt: int, files: dict[str, Any]) -> None:
        """Begins to send, from what the other side has."""
        if self._source is not None and self._attempt is not None and self._attempt.number == attempt:
            self._source.connect(files)
            self._have, self._told = True, False

    def announce(self, attempt: int, topic: str, data: dict[str, Any]) -> None:
        if self._channel is None or self._attempt is None or self._attempt.number != attempt or topic in self._announced:
            return
        self._announced.add(topic)
        self._channel.announce(topic, data)
        if topic == "stop":
            self._kill_at = None  # the supervisor decides again

    def received(self, count: int) -> None:
        if self._source is not None:
            self._source.received(count)

    def refuse(self, name: str, reason: str) -> None:
        """Takes in that the supervisor's side has no place for a file."""
        if self._source is not None:
            self._source.refuse(name, reason)

    def next_frames(self) -> bytes:
        return self._source.next() if self._source is not None and self._have else b""

    def look(self) -> None:
        """Takes in what has changed, and the end of the agent."""
        for pid, status in reap_children():
            if pid == self._agent:
                self._ended(status)
        self._look_for_devices()
        self._keep_agent()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.kill()
        if self._source is None:
            return
        self._source.look()
        if self._have and not self.running and not self._told and self._source.delivered:
            self._told = True
            self._note_delivered()
            self._say("ended", attempt=self._attempt.number if self._attempt else 0, status=self._status, left=self._left())

    def _note_delivered(self) -> None:
        """Notes for later daemons of the run that nothing of an attempt has to be kept."""
        assert self._attempt is not None and self._source is not None
        folder = self._attempt.node(self._index)
        end = read_object(folder.exit)
        if end and not end.get("unsaved") and not self._source.refused:
            with suppress(OSError):  # a full disk
                write_text(f"{folder.path}/{DELIVERED}", "")

    def _keep_agent(self) -> None:
        """Lets others see now and then that the agent is in use: a run may last longer than what is not used is kept."""
        if self._settings and time.monotonic() > self._used + USED:
            self._used = time.monotonic()
            with suppress(OSError):
                os.utime(self._archive())

    def _left(self) -> dict[str, Any] | None:
        """What stays here of the attempt because it cannot be sent."""
        if self._source is None or self._attempt is None or not self._source.refused:
            return None
        refused = self._source.refused
        shown = dict(sorted(refused.items())[:SHOWN])
        return {"folder": self._attempt.node(self._index).path, "count": len(refused), "files": shown}

    def _ended(self, status: int) -> None:
        """Leaves nothing of the agent running."""
        self._agent, self._status = 0, status
        os.close(self._tie)
        Processes(contained=False).kill_all()
        self._kill_left()  # what `exec` put beside its ranks
        if self._attempt is not None:
            delete_tree(self._attempt.ssh)
        if self._source is not None:
            self._source.finish()

    def _kill_left(self) -> None:
        """Kills what runs of this node without its agent."""
        run = self._paths.run.id
        while kill_marked(run, f"MUSTER_NODE={self._index}"):
            time.sleep(0.002)
        memory.remove_group(memory.group(run, self._index))

    def kill(self) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self._agent, signal.SIGKILL)

    def cut_off(self) -> None:
        """Ends the ranks without a supervisor. What they wrote stays here; nothing is uploaded, for another attempt may run."""
        if not self.running or self._cut or self._channel is None:
            return
        self._cut = True
        grace = self._known_job().grace
        self._channel.announce("cut", {})
        if "stop" not in self._announced:
            stop = Stop(Cause.LOST, "the supervisor could not be reached any more", grace)
            self._announced.add("stop")
            self._channel.announce("stop", stop.to_json())
        self._kill_at = time.monotonic() + grace + KILL_LIMIT

    def _known_job(self) -> Job:
        if self._job is None:
            raise Broken("a message before the run")
        return self._job

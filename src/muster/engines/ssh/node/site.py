"""The site of a supervisor whose nodes are hosts that are reached over ssh: one link process for each."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import tarfile
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from muster.agent.node import environment
from muster.agent.sandbox import agent_process
from muster.agent.supervisor.site import Assignment, Cut, NodeEnded, NotReady, Site
from muster.channel.base import SupervisorChannel
from muster.channel.stream import frames
from muster.channel.stream.frames import Parser
from muster.engines.ssh.node import bootstrap
from muster.engines.ssh.node.connection import Host
from muster.engines.ssh.node.link import Handover, Link
from muster.linux import keys, syscalls
from muster.linux.held_signals import held
from muster.linux.signals import reap_children, send
from muster.records.files import Events
from muster.records.layout import AttemptDir
from muster.records.logs import last_lines
from muster.records.units import duration, signal_name

LINK_KILLED = "lost the process that kept its connection"
QUICK = 1.0  # seconds for which connecting is not worth a word
NAMED = 5  # hosts that are named in a reason
RESTARTED = "was started again, or its daemon was killed"
CONNECTING = 32  # connections that are opened at a time
READ = 1 << 18
CLOSE_LIMIT = 5.0  # for hosts to take leave
RETRY = (0.5, 2.0)  # seconds before devices are asked for again, by chance: two runs must not take turns for ever
MARGIN = 12.0  # for a host that was cut off to end what its ranks' grace has left


@dataclass
class Node:
    """A host of the run, as its link reports it."""

    index: int
    spec: str
    name: str
    pid: int
    line: socket.socket
    parser: Parser = field(default_factory=Parser)
    reached: str = ""
    address: str = ""
    ready: bool = False
    held: bool | None = None  # None while it was not asked or has not answered
    trouble: str = ""  # why its connection is broken
    running: bool = False
    lost: bool = False
    linked: bool = True  # whether its link process lives

    def say(self, say: str, **data: Any) -> None:
        try:
            self.line.sendall(frames.message(say, **data))
        except OSError:
            pass  # its link was killed, of which the end of the line tells


class SshSite(Site):
    def __init__(self, assignment: Assignment, events: Events) -> None:
        self.assignment = assignment
        self.job = assignment.job
        self.events = events
        self._hosts = self.job.hosts
        self._nodes: list[Node] = []
        self._begun = time.monotonic()
        self._ask_at = 0.0  # when devices are asked for again
        self._asked = False
        self._ended: list[NodeEnded] = []
        self._attempt: AttemptDir | None = None
        self._cut: list[str] = []  # hosts that were lost in this attempt, and how
        self._tokens = (-1, -1)  # a pipe with as many bytes as links may connect at a time

    # -- before the first attempt

    def ready(self) -> bool:
        """Connects to all hosts, gives them what they lack, and takes the devices of all of them or of none."""
        if not self._nodes:
            self._connect()
        self._listen()
        waiting = [node for node in self._nodes if not node.ready]
        if waiting:
            self.reason = self._connecting(waiting)
        elif all(node.held for node in self._nodes):
            for node in self._nodes:
                self.events.add("host", node=node.index, host=node.spec, address=node.address)
            return True
        else:
            self._hold()
        return False

    def _connecting(self, waiting: list[Node]) -> str:
        """Which hosts are waited for, once that takes a while."""
        if time.monotonic() < self._begun + QUICK:
            return ""
        more = f" and {len(waiting) - NAMED} more" if waiting[NAMED:] else ""
        named = ", ".join(node.spec for node in waiting[:NAMED]) + more
        trouble = next((f" ({node.spec}: {node.trouble})" for node in waiting if node.trouble), "")
        return f"connecting to {named}{trouble}"

    def _hold(self) -> None:
        """Asks all hosts for devices; where one has none to give, the others let theirs go, and all are asked again later."""
        now = time.monotonic()
        if now < self._ask_at or (self._asked and any(node.held is None for node in self._nodes)):
            return  # it is too early, or answers are on their way
        for index, node in enumerate(self._nodes):
            peer = self._nodes[index == 0].reached if len(self._nodes) > 1 else ""
            node.held = None
            node.say("let-go") if self._asked else node.say("hold", peer=peer)
        self._ask_at = now + random.uniform(*RETRY) if self._asked else 0.0
        self._asked = not self._asked

    def _connect(self, attempt: int = 0) -> None:
        hosts = self._hosts
        agent = _read(self.assignment.tools.archive)
        digest = hashlib.sha256(agent).hexdigest()
        code, code_digest = _archive(self.assignment.code)
        submitters = environment.given()
        travelling = {*self.job.secrets, "MUSTER_POWER"}
        of_ssh = {name: value for name, value in submitters.items() if name not in travelling and name != keys.VARIABLE}
        begin = {
            "job": self.job.to_json(),
            "code": code_digest,
            "agent": digest,
            "environment": {name: value for name, value in submitters.items() if name in travelling},
            "keys": keys.read(),
            "namespaces": self.assignment.namespaces,
            "interface": hosts.interface,
            "shared": hosts.shared,
        }
        self._tokens = os.pipe()
        os.write(self._tokens[1], b"." * CONNECTING)
        with held():
            for index, spec in enumerate(hosts.nodes):
                host = Host.parse(spec)
                assert host is not None  # checked when the job was submitted
                command = bootstrap.command(hosts.directory, digest, hosts.python, self.assignment.run.id, index)
                given = Handover(
                    self.assignment.run, index, host, command, of_ssh, agent, code, begin, hosts.lost_after, attempt
                )
                self._nodes.append(self._fork(given, spec))
        os.close(code)

    def _fork(self, given: Handover, spec: str) -> Node:
        near, far = socket.socketpair()
        supervisor, pid = os.getpid(), os.fork()
        if pid == 0:
            _be_link(given, far, self._tokens, supervisor, [near, *(node.line for node in self._nodes)])
        far.close()
        near.setblocking(True)
        return Node(given.node, spec, given.host.name, pid, near)

    def filenos(self) -> list[int]:
        return [node.line.fileno() for node in self._nodes if node.linked]

    def resume(self, attempt: AttemptDir) -> bool:
        """Connects to the daemons of an attempt: they go on, or send what is left of it where its ranks have ended."""
        self._attempt = attempt
        self._connect(attempt.number)
        for node in self._nodes:
            node.running = node.ready = node.held = True
        return True

    # -- what links report

    def _listen(self) -> None:
        reap_children()
        for node in [node for node in self._nodes if node.linked]:
            while True:
                try:
                    data = node.line.recv(READ, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                for frame in node.parser.feed(data):
                    message = frame.object
                    self._take(node, str(message.pop("say")), message)
                if not data:
                    self._gone(node)
                    break

    def _gone(self, node: Node) -> None:
        node.linked = False
        if self._attempt is None:
            raise NotReady(f"{node.spec}: {LINK_KILLED}")
        self._lose(node, LINK_KILLED)

    def _lose(self, node: Node, reason: str) -> None:
        if node.running:
            node.running, node.lost = False, True
            self._cut.append(f"{node.spec} {reason}")
            self._ended.append(NodeEnded(node.index, f"({node.spec}) {reason}"))

    def _take(self, node: Node, say: str, data: dict[str, Any]) -> None:
        if say == "connected":
            node.reached, node.trouble = str(data.get("reached")), ""
            if not node.name or node.name.replace(".", "").isdigit() or ":" in node.name:
                node.name = str(data.get("host"))
        elif say == "ready":
            node.ready = True
        elif say == "held":
            node.held, node.address = True, str(data.get("address"))
        elif say == "busy":
            node.held = False
            self.reason = f"{node.spec}: {data.get('reason')}"
        elif say == "unfit" and self._attempt is not None:
            self._lose(node, str(data.get("reason")))
        elif say == "unfit":
            raise NotReady(f"{node.spec}: {data.get('reason')}")
        elif say == "broken":
            node.trouble = str(data.get("reason"))
            self.events.add("link-broken", node=node.index, host=node.spec, reason=node.trouble)
        elif say == "lost":
            self._lose(node, f"was not reached for {duration(self._hosts.lost_after)}: {node.trouble}")
        elif say == "ended" and self._attempt is not None and data.get("attempt") == self._attempt.number:
            if refused := data.get("refused"):
                self.events.add("left-on-host", attempt=self._attempt.number, node=node.index, host=node.spec, left=refused)
            self._take_end(node, self._attempt, data.get("status"))

    def _take_end(self, node: Node, attempt: AttemptDir, status: object) -> None:
        """Takes in that an agent has ended, and that all that it wrote is here."""
        if node.running and not isinstance(status, int) and not os.path.exists(attempt.node(node.index).exit):
            self._lose(node, RESTARTED)
        elif node.running:
            how = _how(attempt, node.index, status) if isinstance(status, int) else ""
            self._ended.append(NodeEnded(node.index, f"({node.spec}) {how}"))
        node.running = node.lost = False

    # -- an attempt

    def start(self, attempt: AttemptDir) -> None:
        self._attempt, self._cut = attempt, []
        left = None if self.deadline is None else self.deadline - time.monotonic()
        names = [[node.name, node.address] for node in self._nodes]
        for node in self._nodes:
            node.running = True
            node.say("start", attempt=attempt.number, nodes=names, left=left, count=self.assignment.count)
            if not node.linked:
                self._lose(node, LINK_KILLED)

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        self._listen()
        found, self._ended = self._ended, []
        return [NodeEnded(event.node, "" if channel.has_ended(event.node) else event.lost) for event in found]

    def verdict(self, attempt: AttemptDir) -> Cut | None:
        return Cut(", ".join(self._cut)) if self._cut else None

    def kill(self, nodes: Collection[int]) -> None:
        for node in self._nodes:
            if node.index in nodes:
                node.say("kill")

    def sweep(self, attempt: AttemptDir) -> None:
        """Waits for hosts that were lost: their ranks end by themselves, and have done so when the time is up."""
        deadline = time.monotonic() + self.job.grace + MARGIN
        while any(node.lost for node in self._nodes) and time.monotonic() < deadline:
            self._listen()
            time.sleep(0.1)

    def close(self) -> None:
        for node in self._nodes:
            node.say("over")
        deadline = time.monotonic() + CLOSE_LIMIT
        for node in self._nodes:
            node.line.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                while node.line.recv(READ):
                    pass
            except OSError:
                send(node.pid, signal.SIGKILL)
            node.line.close()
        reap_children()
        for descriptor in [descriptor for descriptor in self._tokens if descriptor >= 0]:
            os.close(descriptor)


def _be_link(
    given: Handover, line: socket.socket, tokens: tuple[int, int], supervisor: int, others: list[socket.socket]
) -> None:
    """Never returns: this process is the link of a node, and ends with its supervisor."""
    code = 1
    try:
        agent_process.leave_parent()
        for unused in others:
            unused.close()
        syscalls.die_with_parent()
        syscalls.set_name(f"muster-link-{given.node}")
        if os.getppid() == supervisor:
            Link(given, line, tokens).run()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _how(attempt: AttemptDir, node: int, status: int) -> str:
    """How an agent ended that left no record of its end."""
    if os.WIFSIGNALED(status):
        return f"killed its agent ({signal_name(os.WTERMSIG(status))})"
    said = last_lines(attempt.node(node).agent_log, 1) or ["it left no word"]
    return f"has an agent that failed (code {os.WEXITSTATUS(status)}): {said[0]}"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _archive(folder: str) -> tuple[int, str]:
    """The code as a tar without a name on this machine, the same for the same code; returns a descriptor and the digest."""
    descriptor = keys.memory_file()
    with (
        os.fdopen(os.dup(descriptor), "wb") as file,
        tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(os.listdir(folder)):
            archive.add(f"{folder}/{name}", name, filter=_anonymous)
    digest, offset = hashlib.sha256(), 0
    while piece := os.pread(descriptor, 1 << 20, offset):
        digest.update(piece)
        offset += len(piece)
    return descriptor, digest.hexdigest()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry

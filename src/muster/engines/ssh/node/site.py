"""The site of a supervisor whose nodes are hosts that are reached over ssh: one link process for each."""

from __future__ import annotations

import os
import random
import re
import socket
import time
from collections.abc import Collection, Mapping
from typing import Any

from muster.agent.sandbox import agent_process
from muster.agent.supervisor.own_site import OwnSite
from muster.agent.supervisor.site import Assignment, Cut, NodeEnded, NotReady, how_agent_ended
from muster.channel.base import SupervisorChannel
from muster.channel.stream import frames
from muster.channel.stream.frames import Parser
from muster.dataclass import dataclass, field
from muster.engines.ssh.node import addresses, handover
from muster.engines.ssh.node.addresses import Place, Unsuitable
from muster.engines.ssh.node.connection import Host
from muster.engines.ssh.node.handover import Handover
from muster.engines.ssh.node.link import Link
from muster.linux import syscalls
from muster.linux.held_signals import held
from muster.linux.signals import reap_children, send_to_group
from muster.records import clocks
from muster.records.files import Events, read_events, read_object
from muster.records.layout import AttemptDir
from muster.records.run_view import Cause
from muster.records.text.units import duration

LINK_KILLED = "lost the process that kept its connection"
QUICK = 1.0  # seconds for which connecting is not worth a word
NAMED = 5  # hosts that are named in a reason
RESTARTED = "was started again, or its daemon was killed"
CONNECTING = 32  # connections that are opened at a time
READ = 1 << 18
PIECES = 16  # that are read of a link before the next one is
CLOSE_LIMIT = 5.0  # for hosts to take leave
MOST_LEFT, LONGEST = 20, 1024  # files that stay on a host and are named, letters of what it says of them
AGAIN = 1.0  # seconds before devices are asked for again, at most and by chance, beside what asking takes
MARGIN = 12.0  # for a host that was cut off to end what its ranks' grace has left


@dataclass(frozen=False)
class Node:
    """A host of the run, as its link reports it."""

    index: int
    spec: str
    name: str
    pid: int
    line: socket.socket
    parser: Parser = field(default_factory=Parser)
    place: Place | None = None
    address: str = ""
    machine: str = ""  # its CPU architecture
    ahead: float = 0.0  # seconds by which its clock is ahead of this machine's
    ready: bool = False
    asked: bool = False  # for its devices, without an answer so far
    held: bool = False
    busy: str = ""  # whom it waits for, until its devices are free
    trouble: str = ""  # why its connection is broken
    running: bool = False
    lost: bool = False
    killed_at: float | None = None  # since when it was told to end its agent, and nothing came of it
    linked: bool = True  # whether its link process lives
    lease: float = 0.0  # until when its daemon may wait for another link, where that process was killed

    def order(self) -> str:
        """A text by which all runs put hosts in the same order."""
        return self.place.network if self.place else ""

    def say(self, say: str, **data: Any) -> None:
        try:
            self.line.sendall(frames.message(say, **data))
        except OSError:
            pass  # its link was killed, of which the end of the line tells


class SshSite(OwnSite):
    nodes_return = True
    link: type[Link] = Link

    def __init__(self, assignment: Assignment, events: Events) -> None:
        self.assignment = assignment
        self.job = assignment.job
        self.events = events
        self._hosts = self.job.hosts
        self._nodes: list[Node] = []
        self._begun = time.monotonic()
        self._ask_at = 0.0  # when devices are asked for again
        self._asked_at = 0.0  # when they were asked for
        self._refused = False  # whether others had some of them
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
            self._check_addresses()
            for node in self._nodes:
                own = {"address": node.address, "machine": node.machine}
                self.events.add("host", node=node.index, host=node.spec, **own)
            return True
        else:
            self._hold()
        return False

    def _connecting(self, waiting: list[Node]) -> str:
        """Which hosts are waited for, once that takes a while."""
        if time.monotonic() < self._begun + QUICK:
            return ""
        named = _some([node.spec for node in waiting], ", ")
        trouble = next((f" ({node.spec}: {node.trouble})" for node in waiting if node.trouble), "")
        return f"connecting to {named}{trouble}"

    def _hold(self) -> None:
        """Asks all hosts for devices. Where one has none to give, the others let theirs go until it says that they are free.

        From then on one host is asked before all others, by an order that does not depend on the run: of two runs that want
        the same hosts one is refused there, and takes nothing from the other. Chance does the rest.
        """
        now = time.monotonic()
        if any(node.asked for node in self._nodes) or now < self._ask_at:
            return  # answers are on their way, or it is too early
        if busy := [node for node in self._nodes if node.busy]:
            if not self._refused or any(node.held for node in self._nodes):
                self._ask_at = now + random.uniform(0.0, AGAIN + now - self._asked_at)
            self._refused = True
            self.reason = _some([f"{node.spec}: {node.busy}" for node in busy], "; ")
            for node in (node for node in self._nodes if node.held):
                node.held = False
                node.say("let-go")
            return
        self._asked_at = now
        missing = sorted((node for node in self._nodes if not node.held), key=Node.order)
        peers = self._choose_addresses()
        for node in missing[:1] if self._refused and len(missing) == len(self._nodes) else missing:
            node.asked = True
            node.say("hold", peer=peers.get(node.index, ""), nodes=len(self._workers_beside(node)))

    def _workers_beside(self, node: Node) -> list[Node]:
        """The nodes with devices on the machine of a node, itself included: one may be named twice, by different names."""
        return [
            each for each in self._nodes[: self.job.nodes] if each is node or (node.order() and each.order() == node.order())
        ]

    def _choose_addresses(self) -> dict[int, str]:
        """Chooses the addresses of all nodes; returns the peers of those that have to look for a route. Raises NotReady."""
        places = [node.place for node in self._nodes if node.place is not None]
        try:
            for node, address in zip(self._nodes, addresses.choose(places, self._hosts.interface)):
                node.address = address
            return {node.index: addresses.peer(places, node.index) for node in self._nodes if not node.address}
        except Unsuitable as error:
            raise NotReady(f"{self._nodes[error.host].spec}: {error}") from None

    def _check_addresses(self) -> None:
        """Raises NotReady where hosts cannot reach each other at their addresses."""
        machines = {node.place.network for node in self._nodes if node.place is not None}
        for node in self._nodes:
            if len(machines) > 1 and not addresses.is_usable(node.address):
                what = f"the other hosts do not reach it at {node.address}" if node.address else "it has no route to the others"
                raise NotReady(f"{node.spec}: {what}; name a network that they share with `interface`")

    def _connect(self, attempt: int = 0) -> None:
        self._tokens = os.pipe()
        os.set_blocking(self._tokens[0], False)
        os.write(self._tokens[1], b"." * CONNECTING)
        given = handover.of_each_node(self.assignment, attempt, self.find_host)
        with held():
            for one, spec in zip(given, self._hosts.nodes):
                self._nodes.append(self._fork(one, spec))
        os.close(given[0].code)

    def find_host(self, index: int, spec: str) -> Host:
        """How a host is reached."""
        host = Host.parse(spec)
        assert host is not None  # checked when the job was submitted
        return host

    def _fork(self, given: Handover, spec: str) -> Node:
        near, far = socket.socketpair()
        supervisor, pid = os.getpid(), os.fork()
        if pid == 0:
            _be_link(self.link, given, far, self._tokens, supervisor, [near, *(node.line for node in self._nodes)])
        far.close()
        near.setblocking(True)
        return Node(given.node, spec, given.host.name, pid, near)

    def filenos(self) -> list[int]:
        return [node.line.fileno() for node in self._nodes if node.linked]

    def resume(self, attempt: AttemptDir) -> bool:
        """Connects to the daemons of an attempt: they go on, or send what is left of it where its ranks have ended."""
        self._attempt = attempt
        self._connect(attempt.number)
        known = [event for event in read_events(self.assignment.run.events) if event["event"] == "host"]
        chosen = {(event.get("node"), event.get("host")): addresses.read(event.get("address")) for event in known}
        for node in self._nodes:
            node.running = node.ready = node.held = True
            node.address = chosen.get((node.index, node.spec), "")  # for another attempt
        return True

    # -- what links report

    def _listen(self) -> None:
        reap_children()
        for node in [node for node in self._nodes if node.linked]:
            for _ in range(PIECES):  # a host that never stops talking keeps nobody from being heard
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
        node.linked, node.lease = False, time.monotonic() + self._hosts.lost_after
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
            self._meet(node, data)
        elif say == "clock":
            node.ahead = float(data["ahead"])
        elif say == "ready":
            node.ready = True
        elif say == "moved":
            node.killed_at = None  # what it has written may take long
        elif say == "held":
            node.asked, node.held, node.busy = False, True, ""
            node.address = node.address or addresses.read(data.get("address"))
        elif say in ("busy", "free"):
            node.asked, node.busy = False, _reason(data) if say == "busy" else ""
        elif say == "unfit" and self._attempt is not None:
            self._lose(node, _reason(data))
        elif say == "unfit" and data.get("together") is True and len(same := self._workers_beside(node)) > 1:
            advice = "name each machine once, or ask for fewer devices"
            raise NotReady(f"{same[1].spec} is the same machine as {same[0].spec}: {_reason(data)}; {advice}")
        elif say == "unfit":
            raise NotReady(f"{node.spec}: {_reason(data)}")
        elif say == "broken":
            node.trouble = _reason(data)
            self.events.add("link-broken", node=node.index, host=node.spec, reason=node.trouble)
        elif say == "lost":
            self._lose(node, f"was not reached for {duration(self._hosts.lost_after)}: {node.trouble}")
        elif say == "ended" and self._attempt is not None and data.get("attempt") == self._attempt.number:
            if left := _left(data.get("left")):
                self.events.add("left-on-host", attempt=self._attempt.number, node=node.index, host=node.spec, **left)
            self._take_end(node, self._attempt, data.get("status"))

    def _meet(self, node: Node, hello: dict[str, Any]) -> None:
        """Takes in what a host tells of itself on each new connection."""
        node.trouble = ""
        if not node.name or node.name.replace(".", "").isdigit() or ":" in node.name:
            node.name = _host_name(hello.get("host")) or node.name
        node.machine = _host_name(hello.get("machine"))
        node.place = Place.from_json(hello["place"])
        if self._attempt is None:  # what was said to it may be lost, and it has let its devices go
            node.ready = node.asked = node.held = False
            node.busy = ""

    def _take_end(self, node: Node, attempt: AttemptDir, status: object) -> None:
        """Takes in that an agent has ended, and that all that it wrote is here."""
        known = status if isinstance(status, int) and 0 <= status < 1 << 16 else None  # a wait status
        if node.running and known is None and not os.path.exists(attempt.node(node.index).exit):
            self._lose(node, RESTARTED)
        elif node.running and _ended_alone(attempt, node.index):
            self._lose(node, f"ended its ranks: no supervisor reached it for {duration(self._hosts.lost_after)}")
        elif node.running:
            how = how_agent_ended(attempt, node.index, known) if known is not None else ""
            self._ended.append(NodeEnded(node.index, f"({node.spec}) {how}"))
        node.running = node.lost = False

    # -- an attempt

    def start(self, attempt: AttemptDir) -> None:
        self._attempt, self._cut = attempt, []
        left = None if self.deadline is None else self.deadline - time.monotonic()
        names = [[node.name, node.address] for node in self._nodes]
        for node in self._nodes:
            if node.ahead:
                self.events.add(clocks.EVENT, attempt=attempt.number, node=node.index, ahead=node.ahead)
            node.running, node.killed_at = True, None
            node.say("start", attempt=attempt.number, nodes=names, left=left, count=self.assignment.count)
            if not node.linked:
                self._lose(node, LINK_KILLED)

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        self._listen()
        found, self._ended = self._ended, []
        recorded = {event.node for event in found if channel.has_ended(event.node) and not _ended_alone(attempt, event.node)}
        return [NodeEnded(event.node, "" if event.node in recorded else event.lost) for event in found]

    def verdict(self, attempt: AttemptDir) -> Cut | None:
        return Cut(", ".join(self._cut)) if self._cut else None

    def kill(self, nodes: Collection[int]) -> None:
        now = time.monotonic()
        for node in self._nodes:
            if node.index in nodes:
                node.say("kill")
                node.killed_at = node.killed_at or now
                if now - node.killed_at > self._hosts.lost_after:
                    self._lose(node, f"did not end its processes within {duration(self._hosts.lost_after)}")

    def sweep(self, attempt: AttemptDir) -> None:
        """Waits for hosts that were lost: their ranks end by themselves, and have done so when the time is up."""
        begun, left = time.monotonic(), self.job.grace + MARGIN
        while any(node.lost and time.monotonic() < (node.lease or begun) + left for node in self._nodes):
            self._listen()
            time.sleep(0.1)
        for node in (node for node in self._nodes if node.lost):
            folder = f"{self._hosts.directory}/nodes/{node.index}/runs/{self.assignment.run.id}"
            self.events.add("not-delivered", attempt=attempt.number, node=node.index, host=node.spec, folder=folder)

    def close(self, keep: bool = False) -> None:
        for node in self._nodes:
            node.say("over", keep=keep)
        deadline = time.monotonic() + CLOSE_LIMIT
        for node in self._nodes:
            node.line.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                while node.line.recv(READ):
                    pass
            except OSError:
                send_to_group(node.pid)  # its ssh, too, and what that has started
            node.line.close()
        reap_children()
        for descriptor in [descriptor for descriptor in self._tokens if descriptor >= 0]:
            os.close(descriptor)


def _be_link(
    link: type[Link],
    given: Handover,
    line: socket.socket,
    tokens: tuple[int, int],
    supervisor: int,
    others: list[socket.socket],
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
            link(given, line, tokens).run()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _reason(data: Mapping[str, Any]) -> str:
    """Returns why a host cannot go on, as it says itself, bounded in length."""
    return str(data.get("reason"))[:LONGEST]


def _host_name(said: object) -> str:
    """The name that a host gives itself, which other nodes find in their files; nothing where it is none."""
    return said if isinstance(said, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", said) else ""


def _left(said: object) -> dict[str, Any] | None:
    """What a host says that it keeps, as far as that can be meant."""
    if not isinstance(said, dict) or not isinstance(said.get("files"), dict) or not isinstance(said.get("count"), int):
        return None
    files = {str(name)[:LONGEST]: str(reason)[:LONGEST] for name, reason in list(said["files"].items())[:MOST_LEFT]}
    return {"folder": str(said.get("folder"))[:LONGEST], "count": said["count"], "files": files}


def _some(words: list[str], between: str) -> str:
    """The first few words, and how many there are beside them."""
    more = f" and {len(words) - NAMED} more" if words[NAMED:] else ""
    return between.join(words[:NAMED]) + more


def _ended_alone(attempt: AttemptDir, node: int) -> bool:
    """True if a node has ended its ranks because it was cut off, and the supervisor had not told anybody to stop."""
    return read_object(attempt.node(node).exit).get("cause") == Cause.LOST.value and not os.path.lexists(attempt.stop)

"""Asks all hosts of a group at once what they have, each within a time limit; and measures the links between them."""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count
from types import TracebackType

from muster.dataclass import replace
from muster.engines.ssh import report
from muster.engines.ssh.node import addresses, bootstrap, ssh_options
from muster.engines.ssh.node.addresses import Unsuitable
from muster.engines.ssh.node.connection import UNRESOLVED, Host, Unfit, Unreachable
from muster.engines.ssh.node.conversation import Conversation
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.report import Link, Report, Wanted
from muster.records.text.units import duration

LIMIT = 30.0  # seconds for a host to answer all questions
LINK_LIMIT = 15.0  # seconds for both ends of a link
AT_ONCE = 32  # hosts that are asked at a time
AGAIN = 3  # times that a host is asked again, where it is not too many connections that are in the way
PAUSE = 0.5  # seconds before that at most, more with each time
CLOCKS = 3  # readings of a clock, of which the quickest counts


class Survey:
    """A conversation with every host of a group. `waiting` has those that have not answered yet."""

    def __init__(
        self,
        hosts: HostsOptions,
        agent: bytes,
        limit: float = LIMIT,
        wanted: Wanted | None = None,
        known: Collection[int] | None = None,
        reached: Callable[[str], Host | None] = Host.parse,
    ) -> None:
        """With `known`, hosts are asked who uses their devices, but for holders of locks with these numbers."""
        self._known = known
        self._reached = reached
        self._hosts = hosts
        self._agent = agent
        self._limit = limit
        self._wanted = wanted
        self._command = bootstrap.command(hosts.directory, hashlib.sha256(agent).hexdigest(), hosts.python, "survey")
        self._open: dict[str, Conversation] = {}
        self.waiting: list[str] = list(hosts.nodes)

    def __enter__(self) -> Survey:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind:
            self.kill()  # after an interrupt threads still read from some
        else:
            for conversation in list(self._open.values()):
                conversation.close()

    def reports(self) -> list[Report]:
        """What each host says, in their order."""
        found = self._of_each(self._hosts.nodes, self._look)
        with_addresses = {one.host: one for one in self._with_addresses([one for one in found if one.place is not None])}
        return [with_addresses.get(one.host, one) for one in found]

    def _of_each(self, hosts: Sequence[str], look: Callable[[str], Report]) -> list[Report]:
        """Asks hosts in threads, a bounded number at a time. They end by themselves: each wait of them has a limit."""
        found: dict[str, Report] = {}
        left = list(hosts)[::-1]
        self.waiting = list(hosts)
        ssh_options.chosen()  # once, and not in each thread

        def work() -> None:
            while True:
                try:
                    host = left.pop()
                except IndexError:
                    return
                found[host] = look(host)
                self.waiting.remove(host)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(AT_ONCE, len(left)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[host] for host in hosts]

    def _look(self, spec: str) -> Report:
        """Asks a host, and asks again if it may answer now; all within the limit."""
        begun = time.monotonic()
        for again in count():
            try:
                return self._asked(spec, begun + self._limit - time.monotonic())
            except (Unreachable, OSError) as problem:  # this machine may be out of processes or descriptors
                took = time.monotonic() - begun
                if isinstance(problem, OSError) or not self._tries_again(problem, again, took):
                    return self._failed(spec, problem, took)
            self._end(spec)
            time.sleep(random.uniform(0.0, PAUSE * min(again + 1, 4)))  # not all hosts at the same moment
        raise AssertionError

    def _tries_again(self, problem: Unreachable, again: int, took: float) -> bool:
        if problem.lasting or isinstance(problem, Unfit):
            return False
        return took < self._limit - 4 * PAUSE if problem.crowded else again < AGAIN and took < self._limit / 3

    def _asked(self, spec: str, limit: float) -> Report:
        host = self._reached(spec)
        assert host is not None  # its name was checked
        conversation = Conversation(host, self._command, os.environ, limit)
        self._open[spec] = conversation
        conversation.open(self._agent)
        found = report.fields(conversation.ask("system", ssh=bool(self._hosts.ssh)))
        kinds = report.accelerators(conversation.ask("devices"))
        clock, error = _clock(conversation)
        found.update(self._wanted_of(conversation))
        found.update(self._use_of(conversation))
        return Report(spec, reached=True, accelerators=kinds, clock=clock, clock_error=error, **found)

    def _end(self, spec: str) -> None:
        if conversation := self._open.pop(spec, None):
            conversation.close()

    def _wanted_of(self, conversation: Conversation) -> dict[str, object]:
        if self._wanted is None:
            return {}
        answer = conversation.ask("programs", python=self._wanted.python, names=self._wanted.programs)
        programs = answer.get("programs")
        given = programs if isinstance(programs, dict) else {}
        return {
            "programs": {name: report.text(given.get(name)) for name in self._wanted.programs},
            **{name: report.text(answer.get(name)) for name in ("job_python", "job_python_version")},
        }

    def _use_of(self, conversation: Conversation) -> dict[str, object]:
        if self._known is None:
            return {}
        uses, unanswered = report.uses(conversation.ask("use", known=list(self._known)))
        return {"uses": uses, "unanswered": unanswered}

    def _failed(self, spec: str, error: Exception, took: float) -> Report:
        """What is known of a host that gave no complete answer."""
        self._end(spec)
        problem = str(error)
        if took >= self._limit:
            problem = f"it has not answered within {duration(self._limit)}; {str(error).rpartition('; ')[2]}"
        reached = isinstance(error, Unfit)
        return Report(spec, problem=problem, reached=reached, unresolved=problem.startswith(UNRESOLVED))

    def _with_addresses(self, found: Sequence[Report]) -> list[Report]:
        """The reports with the addresses that ranks would use there, chosen as a run does, or why one has none."""
        left, done = list(found), []
        chosen: list[str] = []
        peers: dict[str, str] = {}
        while left and not chosen:
            places = [one.place for one in left if one.place is not None]
            try:
                wanted = addresses.choose(places, self._hosts.interface)
                peers = {one.host: addresses.peer(places, index) for index, one in enumerate(left) if not wanted[index]}
                chosen = wanted
            except Unsuitable as error:
                done.append(replace(left.pop(error.host), no_address=str(error)))
        addressed = {one.host: replace(one, address=address) for one, address in zip(left, chosen, strict=True)}
        routed = self._of_each(list(peers), lambda host: self._routed(addressed[host], peers[host]))
        return [*done, *addressed.values(), *routed]

    def _routed(self, found: Report, peer: str) -> Report:
        """The report with the address of a host on its route to another one."""
        conversation = self._open[found.host]
        conversation.extend(self._limit)
        try:
            answer = conversation.ask("address", peer=peer)
        except Unreachable as error:
            return self._failed(found.host, error, 0.0)
        return replace(found, address=report.address(answer.get("address")))

    def conversations(self) -> dict[str, Conversation]:
        """The open conversations, by host."""
        return dict(self._open)

    def kill(self) -> None:
        """Makes whoever waits for an answer go on."""
        for conversation in list(self._open.values()):
            conversation.kill()

    # -- links

    def links(self, reports: Sequence[Report]) -> list[Link]:
        """The links of a ring through the hosts that answered, each to the next, measured one after the other."""
        there = [found for found in reports if not found.problem and found.address]
        if len(there) < 2:
            return []
        pairs = list(zip(there, [*there[1:], there[0]], strict=True))
        self.waiting = [f"{source.host} → {target.host}" for source, target in pairs]
        found = []
        for source, target in pairs:
            found.append(self._link(source, target))
            self.waiting.pop(0)
        return found

    def _link(self, source: Report, target: Report) -> Link:
        link = Link(source.host, target.host, source.address, target.address)
        sender, receiver = self._open[source.host], self._open[target.host]
        token = secrets.token_hex(16)
        for host, end in ((source.host, sender), (target.host, receiver)):
            if end.broken:
                return replace(link, problem=f"{host} went away while links were measured: {end.broken}")
            end.extend(LINK_LIMIT)
        try:
            opened = receiver.ask("listen", address=target.address)
            if error := report.text(opened.get("error")):
                return replace(link, problem=f"{target.host} cannot listen at {target.address}: {error}")
            receiver.say("receive", token=token)
            try:
                sent = sender.ask(
                    "send", source=source.address, address=target.address, port=report.count(opened.get("port")), token=token
                )
            finally:
                received = receiver.answer()
        except Unreachable as gone:
            host = source.host if sender.broken else target.host
            return replace(link, problem=f"{host} went away while it was measured: {gone}")
        if error := report.text(sent.get("error")) or report.text(received.get("error")):
            reason = f"{target.address} cannot be reached from {source.host} ({source.address}): {error}"
            return replace(link, problem=f"{reason}; a firewall may be in between, or name another `interface`")
        took = report.seconds(received.get("seconds"))
        return replace(link, bytes_per_second=report.count(received.get("bytes")) / took if took > 0 else 0.0)


def _clock(conversation: Conversation) -> tuple[float, float]:
    """How far the clock of a host is ahead of this machine's, and by how much that may be wrong: half of a round trip."""
    found = []
    for _ in range(CLOCKS):
        before, started = time.time(), time.monotonic()
        said = report.seconds(conversation.ask("clock").get("time"))
        half = (time.monotonic() - started) / 2
        found.append((half, said - before - half))
    half, ahead = min(found)
    return ahead, half

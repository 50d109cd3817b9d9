"""A small all-reduce between hosts, for their check: numbers go around a ring, and each host has to end with their sum."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from muster.engines.ssh import report
from muster.engines.ssh.node.connection import Unreachable
from muster.engines.ssh.node.conversation import Conversation
from muster.engines.ssh.node.host import ring
from muster.engines.ssh.report import Report

LIMIT = 3 * ring.LIMIT  # seconds for all answers of a host
MOST = 64  # hosts in one ring


def failures(reports: Sequence[Report], conversations: Mapping[str, Conversation]) -> dict[str, str]:
    """Why hosts do not exchange data with others, by host; those that have no address or stopped answering take no part."""
    there = [one for one in reports if one.address and one.host in conversations and not conversations[one.host].broken]
    rings = [there[first : first + MOST] for first in range(0, len(there), MOST)]
    return {host: why for hosts in rings if len(hosts) > 1 for host, why in _Ring(hosts, conversations).failures().items()}


class _Ring:
    def __init__(self, hosts: Sequence[Report], conversations: Mapping[str, Conversation]) -> None:
        self._hosts = hosts
        self._names = [one.host for one in hosts]
        self._ends = [conversations[name] for name in self._names]
        self._silent: dict[str, str] = {}  # hosts that stopped answering

    def failures(self) -> dict[str, str]:
        for end in self._ends:
            end.extend(LIMIT)
        opened = self._all("ring", [{"address": one.address} for one in self._hosts])
        refused = {name: said for name, answer in zip(self._names, opened, strict=True) if (said := _error(answer))}
        if self._silent or refused:
            cannot = {name: f"it cannot listen at its address: {said}" for name, said in refused.items()}
            return {**cannot, **self._silent}
        broken = self._join([report.count(answer.get("port")) for answer in opened])
        if self._silent or broken:
            return {**blamed(self._names, broken), **self._silent}
        return self._add_up()

    def _join(self, ports: Sequence[int]) -> dict[int, str]:
        """Connects each host to the next; returns the links that do not work, by the host that they begin at."""
        token, count = secrets.token_hex(16), len(self._hosts)
        behind = [(index + 1) % count for index in range(count)]
        words = [
            {"source": one.address, "address": self._hosts[next].address, "port": ports[next], "token": token}
            for one, next in zip(self._hosts, behind, strict=True)
        ]
        answers = self._all("join", words)
        return {index: said for index, answer in enumerate(answers) if (said := _error(answer))} | {
            (index - 1) % count: said for index, answer in enumerate(answers) if (said := report.text(answer.get("unheard")))
        }

    def _add_up(self) -> dict[str, str]:
        seeds = [secrets.randbits(63) for _ in self._hosts]
        answers = self._all("add_up", [{"seed": seed, "hosts": len(seeds)} for seed in seeds])
        if self._silent:
            return self._silent
        if any(map(_error, answers)):
            rounds = [report.count(answer.get("rounds")) for answer in answers]
            first = rounds.index(min(rounds))  # it waited the longest for the host before it
            return {self._names[first - 1]: f"it stopped sending to {self._names[first]}: {_error(answers[first])}"}
        sums = [sum(each) % (1 << 64) for each in zip(*map(ring.numbers, seeds), strict=True)]
        expected = ring.digest(sums)
        wrong = [name for name, answer in zip(self._names, answers, strict=True) if answer.get("digest") != expected]
        return dict.fromkeys(wrong, "its sum of the numbers of all hosts is wrong; memory or network may be damaged")

    def _all(self, question: str, words: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Asks all hosts at once. Those that stop answering are noted."""
        for name, end, given in zip(self._names, self._ends, words, strict=True):
            try:
                end.say(question, **given)
            except Unreachable as error:
                self._silent[name] = str(error)
        return [self._answer(name, end) for name, end in zip(self._names, self._ends, strict=True)]

    def _answer(self, name: str, end: Conversation) -> Mapping[str, Any]:
        if name not in self._silent:
            try:
                return end.answer()
            except Unreachable as error:
                self._silent[name] = str(error)
        return {}


def _error(answer: Mapping[str, Any]) -> str:
    return report.text(answer.get("error"))


def blamed(hosts: Sequence[str], broken: Mapping[int, str]) -> dict[str, str]:
    """Which hosts are left out for links of their ring that do not work; `broken` has them by the host that they begin at.

    A host with both links broken is; of any other broken link it is the host that is not reached.
    """
    count = len(hosts)
    both = {index for index in range(count) if index in broken and (index - 1) % count in broken}
    found = {hosts[index]: f"it exchanges no data with {hosts[index - 1]}: {broken[index]}" for index in sorted(both)}
    for index, said in broken.items():
        target = (index + 1) % count
        if not both & {index, target}:
            found[hosts[target]] = f"it is not reached from {hosts[index]}: {said}"
    return found

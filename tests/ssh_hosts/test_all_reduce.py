"""The small all-reduce between hosts: real sockets, and which host is named when it fails."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from muster.engines.ssh import all_reduce
from muster.engines.ssh.all_reduce import blamed, failures
from muster.engines.ssh.node.conversation import Conversation
from muster.engines.ssh.node.host import ring
from muster.engines.ssh.node.host.ring import RingEnd
from muster.engines.ssh.report import Report

HOSTS = ("a", "b", "c", "d")


class Neighbour:
    """A host that answers from a thread of this process."""

    broken = ""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.end = RingEnd()
        self._threads = threads
        self._answer: Future[dict[str, Any]] | None = None

    def extend(self, limit: float) -> None:
        pass

    def say(self, question: str, **words: Any) -> None:
        answers: dict[str, Callable[..., dict[str, Any]]] = {"ring": self.end.listen, "join": self.end.join}
        self._answer = self._threads.submit(answers.get(question, self.add_up), **words)

    def answer(self) -> dict[str, Any]:
        assert self._answer is not None
        return self._answer.result()

    def add_up(self, seed: int, hosts: int) -> dict[str, Any]:
        return self.end.add_up(seed, hosts)


class Damaged(Neighbour):
    """One whose memory turns a number into another."""

    def add_up(self, seed: int, hosts: int) -> dict[str, Any]:
        return {**self.end.add_up(seed, hosts), "digest": ring.digest(ring.numbers(seed))}


class Silent(Neighbour):
    """One that hangs up in the middle."""

    def add_up(self, seed: int, hosts: int) -> dict[str, Any]:
        self.end._close()
        return {"error": "it hung up", "rounds": hosts}


def result(*kinds: type[Neighbour]) -> dict[str, str]:
    with ThreadPoolExecutor(len(HOSTS)) as threads:
        conversations = {name: cast(Conversation, kind(threads)) for name, kind in zip(HOSTS, kinds, strict=True)}
        return failures([Report(name, address="127.0.0.1") for name in HOSTS], conversations)


def test_hosts_that_exchange_data_have_the_same_right_sum() -> None:
    assert result(Neighbour, Neighbour, Neighbour, Neighbour) == {}


def test_a_wrong_sum_names_its_host() -> None:
    found = result(Neighbour, Damaged, Neighbour, Neighbour)
    assert (list(found), "wrong" in found["b"]) == (["b"], True)


def test_a_host_that_hangs_up_is_named() -> None:
    found = result(Neighbour, Neighbour, Silent, Neighbour)
    assert list(found) == ["c"], found


def test_many_hosts_are_several_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_reduce, "MOST", 2)
    assert result(Neighbour, Neighbour, Damaged, Neighbour).keys() == {"c"}


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        ({}, []),
        ({1: "no answer"}, ["c"]),  # b does not reach c
        ({1: "no answer", 2: "no answer"}, ["c"]),  # c reaches nobody and nobody reaches it
        ({3: "no answer"}, ["a"]),
        ({0: "no answer", 1: "no answer", 3: "no answer"}, ["a", "b"]),
    ],
)
def test_a_host_without_working_links_is_blamed_before_its_neighbours(broken: dict[int, str], names: list[str]) -> None:
    assert sorted(blamed(HOSTS, broken)) == names

"""Ports are held from the moment they are told to others until the processes that use them start."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator

import pytest

from muster.agent.node import ports
from muster.agent.node.ports import Ports
from muster.job import PORTS


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    yield 200
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def can_bind(address: str, port: int) -> bool:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind((address, port))
            other.listen()
        except OSError:
            return False
        return True


def test_nobody_else_gets_a_held_port_on_any_address_and_everybody_once_it_is_released() -> None:
    held = Ports(3)
    assert all(port in PORTS for port in held.numbers)
    for port in held.numbers:
        assert not any(can_bind(address, port) for address in ("", "127.0.0.1", "127.9.8.7"))
    numbers = held.numbers
    held.release()
    assert all(can_bind("127.0.0.1", port) for port in numbers)
    held.close()


def test_a_port_that_is_released_is_left_to_its_node_until_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PORTS", range(31920, 31925))
    held = Ports(5)
    held.release()
    with pytest.raises(OSError, match="fewer than 1 free ports"):
        Ports(1)
    held.close()
    other = Ports(5)
    other.close()


def test_nodes_of_one_machine_never_hold_the_same_port() -> None:
    nodes = [Ports(50) for _ in range(10)]
    assert len({port for node in nodes for port in node.numbers}) == 500
    for node in nodes:
        node.close()


def test_more_ports_are_held_than_a_process_may_have_files_open_and_the_limit_is_as_before(few_descriptors: int) -> None:
    held = Ports(2 * few_descriptors)
    assert len(held.numbers) == 2 * few_descriptors
    held.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_descriptors


def test_more_ports_than_there_are_is_said_and_leaves_none_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PORTS", range(31900, 31910))
    with pytest.raises(OSError, match="fewer than 11 free ports from 31900 to 31909"):
        Ports(11)  # the fixture of all tests sees to it that no descriptor is left

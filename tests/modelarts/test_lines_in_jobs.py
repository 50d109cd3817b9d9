"""The line between the workers of a job: nothing is run for who does not know the key, whatever is sent."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

import pytest

from muster.engines.modelarts.node.inside import line
from muster.engines.modelarts.node.inside.worker import Listener, environment


def soon() -> float:
    return time.monotonic() + 20.0


KEY, OTHER = os.urandom(32), os.urandom(32)  # by which ports are chosen, too


def welcomed(other_end: Callable[[socket.socket], object]) -> bytes | None:
    """The command that worker 1 takes from the other end; None where it takes none."""
    own, far = socket.socketpair()

    def act() -> None:
        with far:
            try:
                other_end(far)
            except (OSError, line.Refused):
                pass

    thread = threading.Thread(target=act)
    thread.start()
    try:
        with own:
            return line.welcome(own, KEY, 1, limit=2.0)
    except (OSError, line.Refused):
        return None
    finally:
        thread.join()


def test_a_command_of_who_knows_the_key_is_taken() -> None:
    assert welcomed(lambda far: line.greet(far, KEY, 1, b"true")) == b"true"


def altered(far: socket.socket) -> None:
    """Proves that it knows the key, and sends another command than it has proved."""
    nonces = line.receive(far, 32, soon()) + bytes(32)
    far.sendall(bytes(32) + line.prove(KEY, b"dial", 1, nonces))
    line.receive(far, 32, soon())
    far.sendall(line.prove(KEY, b"command", 1, nonces, b"true") + len(b"evil").to_bytes(4, "big") + b"evil")


@pytest.mark.parametrize(
    "other_end",
    [
        lambda far: line.greet(far, OTHER, 1, b"true"),
        lambda far: line.greet(far, KEY, 2, b"true"),  # it means another worker
        lambda far: line.greet(far, KEY, 1, b"x" * (line.MOST + 1)),
        lambda far: far.sendall(os.urandom(64) + b"GET / HTTP/1.1\r\n\r\n"),
        lambda far: far.sendall(b"short"),
        lambda far: far.sendall(line.receive(far, 32, soon()) * 2),  # what it was sent itself
        altered,
        lambda far: None,
    ],
)
def test_nobody_else_is_heard(other_end: Callable[[socket.socket], object]) -> None:
    assert welcomed(other_end) is None


def test_what_was_said_before_opens_nothing() -> None:
    said = bytearray()

    class Recorded(socket.socket):
        def sendall(self, data: bytes, *more: int) -> None:  # type: ignore[override]
            said.extend(data)
            super().sendall(data, *more)

    def recorded(far: socket.socket) -> None:
        with Recorded(fileno=os.dup(far.fileno())) as connection:
            line.greet(connection, KEY, 1, b"true")

    assert welcomed(recorded) == b"true"
    assert welcomed(lambda far: far.sendall(bytes(said))) is None


def test_who_answers_without_the_key_gets_no_command() -> None:
    heard = bytearray()

    def impostor(far: socket.socket) -> None:
        far.sendall(os.urandom(32))
        heard.extend(line.receive(far, 64, soon()))
        far.sendall(os.urandom(32))
        heard.extend(far.recv(1000))

    near, far = socket.socketpair()
    thread = threading.Thread(target=impostor, args=(far,))
    thread.start()
    with near, pytest.raises(line.Refused):
        line.greet(near, KEY, 1, b"true", limit=5.0)
    near.close()
    thread.join()
    far.close()
    assert len(heard) == 64 and b"true" not in heard


def test_a_worker_runs_commands_and_ends_when_it_is_told() -> None:
    listener = Listener(KEY, 1)
    with line.dial("127.0.0.1", KEY, 1, 'read word; echo "$word from $SSH_CONNECTION"') as connection:
        connection.sendall(b"heard\n")
        answer = connection.makefile().readline().split()
        assert answer[:3] == ["heard", "from", "127.0.0.1"] and len(answer) == 6
    with pytest.raises(OSError, match="is not reached: it"):
        _dial_at(line.ports(KEY, 1))
    line.dial("127.0.0.1", KEY, 1, "over 7").close()
    assert listener.wait(60.0) == 7
    listener.close()


def test_a_worker_that_hears_nothing_any_more_ends() -> None:
    listener = Listener(KEY, 2)
    line.dial("127.0.0.1", KEY, 2, "true").close()
    assert listener.wait(0.1) == 1
    listener.close()


def _dial_at(ports: list[int]) -> None:
    """Dials the ports of the key with another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line, "ports", lambda key, worker: ports)
        line.dial("127.0.0.1", OTHER, 1, "true")


def test_ranks_do_not_take_themselves_for_those_of_the_service() -> None:
    found = {"RANK": "3", "MASTER_ADDR": "a", "OMPI_COMM_WORLD_RANK": "1", "MUSTER_RUN": "r", "muster_code": "/c"}
    kept = {"HOME": "/home/ma-user", "PATH": "/bin", "NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "2"}
    assert environment({**found, **kept}) == {**kept, "MUSTER_DEVICES_GIVEN": "1"}  # the job is a run of Muster's itself
    assert environment(kept) == kept

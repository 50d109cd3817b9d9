"""Connections that are carried over a stream: every byte arrives once, in order, and neither side keeps more than a window."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame, Parser
from muster.channel.stream.tunnel import MOST, WINDOW, Tunnel


def echoing() -> socket.socket:
    """The near end of a connection whose far end sends everything back, and ends with it."""
    near, far = socket.socketpair()

    def echo() -> None:
        with far, suppress(OSError):  # the other side may end first
            while data := far.recv(1 << 16):
                far.sendall(data)

    threading.Thread(target=echo, daemon=True).start()
    return near


def move(source: Tunnel, parser: Parser, target: Tunnel, cut: int) -> None:
    """Moves all frames from one end to the other, in pieces of some size."""
    data = b""
    while frame := source.next():
        data += frame
    for at in range(0, len(data), cut):
        for found in parser.feed(data[at : at + cut]):
            target.take(found)


def carry(near: Tunnel, far: Tunnel, cut: int, done: Callable[[], bool]) -> None:
    up, down = Parser(), Parser()
    while not done():
        poll = select.poll()
        near.register(poll)
        far.register(poll)
        poll.poll(50)
        near.act()
        far.act()
        move(near, up, far, cut)
        move(far, down, near, cut)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3 * WINDOW), min_size=1, max_size=4), st.sampled_from([1 << 10, 77_777, 1 << 20]))
def test_what_goes_in_comes_out_whatever_the_pieces(sizes: list[int], cut: int) -> None:
    near, far = Tunnel(), Tunnel(echoing)
    received: dict[int, bytes] = {}
    clients = []
    for number, size in enumerate(sizes):
        mine, its = socket.socketpair()
        near.begin(its)
        data = bytes([number]) * size
        sender = threading.Thread(target=lambda mine=mine, data=data: mine.sendall(data))

        def receive(
            mine: socket.socket = mine, number: int = number, size: int = size, sender: threading.Thread = sender
        ) -> None:
            found = b""
            while len(found) < size and (piece := mine.recv(1 << 16)):
                found += piece
            received[number] = found
            sender.join()  # it may not have begun, where there is nothing to receive
            mine.close()

        reader = threading.Thread(target=receive)
        sender.start()
        reader.start()
        clients += [sender, reader]
    carry(near, far, cut, lambda: not any(client.is_alive() for client in clients) and not len(near) and not len(far))
    assert received == {number: bytes([number]) * size for number, size in enumerate(sizes)}


def test_a_reader_that_does_not_read_holds_up_its_own_connection_alone() -> None:
    near, far = Tunnel(), Tunnel(echoing)
    stuck, its = socket.socketpair()
    near.begin(its)
    stuck.setblocking(False)
    sent = 0
    with stuck:
        for _ in range(200):
            poll = select.poll()
            near.register(poll)
            far.register(poll)
            poll.poll(5)
            with suppress(BlockingIOError):
                sent += stuck.send(bytes(1 << 18))
            near.act()
            far.act()
            move(near, Parser(), far, 1 << 20)
            move(far, Parser(), near, 1 << 20)
        assert sent < 6 * WINDOW, "what is on its way is bounded"
        other, its = socket.socketpair()
        near.begin(its)
        with other:
            other.sendall(b"quick")
            other.settimeout(0)

            def answered() -> bool:
                try:
                    return other.recv(5) == b"quick"
                except BlockingIOError:
                    return False

            carry(near, far, 1 << 20, answered)
    near.close()
    far.close()


def test_a_server_that_cannot_be_reached_is_the_end_of_the_connection() -> None:
    def refused() -> socket.socket:
        raise ConnectionRefusedError

    near, far = Tunnel(), Tunnel(refused)
    mine, its = socket.socketpair()
    near.begin(its)
    carry(near, far, 1 << 20, lambda: not len(near))
    assert mine.recv(1) == b""
    mine.close()


@pytest.mark.parametrize(
    "sent",
    [
        [(frames.CARRY, 1, b"x")],
        [(frames.BEGIN, 1, b""), (frames.BEGIN, 1, b"")],
        [(frames.BEGIN, 1, b""), (frames.GRANT, 1, b"x")],
        [(frames.BEGIN, number, b"") for number in range(1, MOST + 2)],
        [(frames.BEGIN, 1, b""), *[(frames.CARRY, 1, bytes(frames.PIECE))] * (WINDOW // frames.PIECE * 4)],
    ],
    ids=["not begun", "begun twice", "no grant", "too many", "more than granted"],
)
def test_what_the_other_side_may_not_send_breaks_the_stream(sent: list[tuple[bytes, int, bytes]]) -> None:
    ends = []

    def silent() -> socket.socket:
        near, far = socket.socketpair()
        ends.append(far)
        return near

    far = Tunnel(silent)
    [everything] = [b"".join(frames.with_number(kind, number, piece) for kind, number, piece in sent)]
    with pytest.raises(Broken):
        for frame in Parser().feed(everything):
            far.take(Frame(frame.kind, frame.payload))
    far.close()
    for end in ends:
        end.close()

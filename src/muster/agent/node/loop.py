"""The event loop of an agent: signals, the channel, ends of processes, descriptors and timers."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable

from muster.agent.node.processes import Processes, Running
from muster.channel.base import NodeChannel
from muster.linux.signals import Signals
from muster.linux.watch import readable

POLL, MOST_POLL = 0.1, 1.0  # where there is no descriptor to wait for; less and less often while nothing happens


class Listener:
    """The callbacks of the loop."""

    def announced(self) -> None:
        """The supervisor may have announced something."""
        raise NotImplementedError

    def ended(self, process: Running) -> None:
        raise NotImplementedError

    def terminated(self) -> None:
        """This agent got SIGTERM or SIGINT."""
        raise NotImplementedError


class Loop:
    def __init__(self, channel: NodeChannel, processes: Processes, parent: int | None, listener: Listener) -> None:
        self.channel = channel
        self.processes = processes
        self.ending = False  # whether the processes of this node are being stopped
        self.readers: dict[int, Callable[[], None]] = {}  # descriptors with what to do when they are readable
        self._parent = () if parent is None else (parent,)  # readable when the supervisor is gone
        self._listener = listener
        self._signals = Signals((signal.SIGCHLD, signal.SIGTERM, signal.SIGINT))
        self._poll = POLL
        self._timers: list[tuple[float, Callable[[], None]]] = []

    @property
    def killed(self) -> bool:
        """True if everything has to end at once."""
        return self.channel.announced("kill") is not None

    def until(self, reached: Callable[[], bool], limit: float | None = None) -> bool:
        """Handles events until a condition holds; false when the time is up first."""
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            self._handle()
            if reached():
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            self._wait(deadline)

    def pause(self, limit: float) -> None:
        """Waits until something happens, for so long at most."""
        self._wait(time.monotonic() + limit)
        self._handle()

    def later(self, pause: float, action: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + pause, action))

    def every(self, pause: float, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.later(pause, again)

        self.later(pause, again)

    def _wait(self, deadline: float | None) -> None:
        moments = [moment for moment, _ in self._timers] + ([deadline] if deadline is not None else [])
        timeout = max(0.0, min(moments) - time.monotonic()) if moments else None
        readers = [self._signals.fileno(), *self._parent, *self.readers]
        if self.channel.polling:
            timeout = self._poll if timeout is None else min(timeout, self._poll)
        else:
            readers.append(self.channel.fileno())
        readable(readers, timeout)

    def _handle(self) -> None:
        signals = self._signals.take()
        if readable(self._parent, 0):
            self.processes.kill_all()  # the supervisor is gone
            os._exit(1)
        if signals & {signal.SIGTERM, signal.SIGINT}:  # before the ends of ranks that may have had it as well
            self._listener.terminated()
        self._poll = POLL if self.channel.listen() else min(MOST_POLL, 1.5 * self._poll)
        self._listener.announced()
        for process in self.processes.reap(self.ending):
            self._listener.ended(process)
        for descriptor in [descriptor for descriptor in self.readers if readable([descriptor], 0)]:
            self.readers[descriptor]()
        now = time.monotonic()
        for timer in [timer for timer in self._timers if timer[0] <= now]:
            self._timers.remove(timer)
            timer[1]()

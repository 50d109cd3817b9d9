"""Decides what is announced in an attempt whose nodes are those of a job of the service: there is no world to announce."""

from __future__ import annotations

from muster.agent.supervisor.arbiter import Arbiter, Silence


class JobArbiter(Arbiter):
    def begin(self) -> None:
        self._gather_until = None

    def resume(self) -> None:
        super().resume()
        self._gather_until = None

    def _gather(self) -> None:
        up = len(self._channel.published("up")) == self._count
        if up and self._silence is None and self._job.silent_limit:
            self._silence = Silence(self._channel, self._job.silent_limit)

    def _all_done(self) -> bool:
        return len(self._channel.published("done")) == self._count

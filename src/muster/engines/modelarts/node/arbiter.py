"""Decides what is announced in an attempt whose nodes are those of a job of the service: there is no world to announce."""

from __future__ import annotations

from muster.agent.supervisor.arbiter import Arbiter, Silence
from muster.channel.base import Message
from muster.engines.modelarts.node.inside.carried import has_agent
from muster.records.files import read_object
from muster.records.run_view import Stop


class JobArbiter(Arbiter):
    def begin(self) -> None:
        self._gather_until = None

    def resume(self) -> None:
        self._gather_until = None
        if stop := read_object(self._attempt.stop):
            self.stop = Stop.from_json(stop)

    def _take(self, message: Message) -> None:
        """A request to stop is that of the site: it follows from how the job ended."""
        if message.topic == "stop-request":
            self.announce_stop(Stop.from_json(message.data))
        else:
            super()._take(message)

    def _gather(self) -> None:
        up = len(self._channel.published("up")) == self._count
        if up and self._silence is None and self._job.silent_limit and not has_agent(self._job):  # else the agent looks
            self._silence = Silence(self._channel, self._job.silent_limit)

    def _all_done(self) -> bool:
        return len(self._channel.published("done")) == self._count

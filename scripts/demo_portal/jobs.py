"""Jobs of the demo: who submits them, to which project, and with which fields."""

import importlib.util
import socket
from dataclasses import dataclass, field
from typing import Any

DEVICES = 12  # that the pool gives out
ENDLESS = {"steps": 1_000_000, "seconds": 0.5}


@dataclass(frozen=True)
class DemoJob:
    """One job; `fields` are those of a job file."""

    name: str
    user: str
    project: str
    devices: int
    parameters: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    def content(self, code: str) -> dict[str, Any]:
        """The job file."""
        if self.fields.get("kind") == "environment":
            return {"name": self.name, "device": "cpu", "devices": self.devices, "grace": "5s", **self.fields}
        common = {"framework": "command", "per": "device", "code": code, "boot": "train.py", "device": "cpu", "grace": "5s"}
        return {**common, "name": self.name, "devices": self.devices, "parameters": self.parameters, **self.fields}


ENDING = (
    DemoJob("resnet-baseline", "lihua", "vision", 2, fields={"nodes": 2}),
    DemoJob("resnet-larger-rate", "lihua", "vision", 2, {"learning_rate": 0.2}, {"nodes": 2}),
    DemoJob("resnet-slow-rank", "lihua", "vision", 4, {"slow_rank": 2}),
    DemoJob("resnet-no-data", "lihua", "vision", 4, {"fail_at": 30}),
    DemoJob("detector-time-limit", "lihua", "vision", 1, ENDLESS, {"time_limit": "6s"}),
    DemoJob("speech-small", "maria", "speech", 2),
    DemoJob("speech-second-attempt", "maria", "speech", 2, {"fail_at": 20, "first_attempt_only": 1}, {"retries": 1}),
)
STOPPED = DemoJob("speech-stopped", "maria", "speech", 1, ENDLESS)
RUNNING = DemoJob("detector-running", "lihua", "vision", 4, ENDLESS)
PREEMPTED = DemoJob("speech-preempted", "maria", "speech", 6, ENDLESS, {"preemptible": True})
URGENT = DemoJob("resnet-urgent", "lihua", "vision", 4, ENDLESS)  # takes the place of the preempted one
PAUSED = DemoJob("speech-paused", "maria", "speech", 1, ENDLESS)
WAITING = DemoJob("detector-waiting", "lihua", "vision", DEVICES, ENDLESS, {"time_limit": "2h"})


def web() -> DemoJob:
    """A job that serves a page of its own, at a port that is free now."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    return DemoJob("detector-web", "lihua", "vision", 1, fields={"boot": "web.py", "endpoints": {"web": port}, "login": True})


def environment() -> DemoJob:
    """An environment; with Jupyter where the Python of the pool has it."""
    jupyter = {"jupyter": True} if importlib.util.find_spec("jupyterlab") else {}
    fields = {"kind": "environment", "endpoints": jupyter, "idle_limit": "8h", "login": True}
    return DemoJob("workbench", "lihua", "vision", 1, fields=fields)

"""The processes and nodes of an attempt, from what their agents wrote."""

from __future__ import annotations

from typing import Any

from muster.dataclass import asdict, dataclass, fields, replace
from muster.job import Job
from muster.records import clocks
from muster.records.files import read_events, read_object
from muster.records.layout import AttemptDir
from muster.records.run_view import State
from muster.records.untrusted import number, whole


@dataclass(frozen=True)
class RankView:
    """A process of an attempt: its state, exit code and times. `rank` is None for processes that are no ranks."""

    process: str
    rank: int | None
    node: int
    state: State = State.PENDING
    code: int | None = None
    signal: int | None = None
    pid: int | None = None
    started: float | None = None
    ended: float | None = None
    log: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RankView:
        """Reads a process as `muster show --json` has it; other keys are ignored."""
        return cls(**{**{each.name: data[each.name] for each in fields(cls)}, "state": State(data["state"])})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state.value}


@dataclass(frozen=True)
class NodeView:
    """A node of an attempt, with what its agent found out and how it ended."""

    node: int
    state: str  # missing, up, ended
    host: Any
    address: Any
    device: Any
    devices: tuple[Any, ...]
    agent: Any
    ended: Any
    dir: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "devices": list(self.devices)}


def held_place(process: str) -> str:
    """The name of the process that stands in the place of another one while a failed run is kept for debugging."""
    return f"held-{process}"


def ranks(attempt: AttemptDir, job: Job, ended: bool) -> list[RankView]:
    """Every process that was started, and the ranks that were not."""
    found = {name: _unstarted(name, rank, node, attempt) for name, rank, node in job.programs}
    ahead = clocks.ahead(attempt)
    for index in range(job.nodes + job.ps):
        for process in _processes(attempt, index):
            name = process["process"]
            entry = found[name] if name in found else _unstarted(name, -1, index, attempt)
            found[name] = replace(
                entry,
                pid=whole(process.get("pid")),
                started=_moment(process.get("started"), ahead.get(index, 0.0)),
                ended=_moment(process.get("ended"), ahead.get(index, 0.0)),
                code=whole(process.get("code")),
                signal=whole(process.get("signal")),
                state=_state(process, ended),
            )
    return list(found.values())


def nodes(attempt: AttemptDir, job: Job) -> list[NodeView]:
    """The nodes of an attempt, with what their agents found out and how they ended."""
    ahead = clocks.ahead(attempt)
    return [_node(attempt, index, ahead.get(index, 0.0)) for index in range(job.nodes + job.ps)]


def _moment(value: Any, ahead: float) -> float | None:
    """A time that a node wrote down, by the clock of the supervisor."""
    found = number(value)
    return None if found is None else found - ahead


def _node(attempt: AttemptDir, index: int, ahead: float) -> NodeView:
    folder = attempt.node(index)
    facts, ended = read_object(folder.facts), read_object(folder.exit)
    return NodeView(
        node=index,
        state="ended" if ended else "up" if facts else "missing",
        **{name: facts.get(name) for name in ("host", "address", "device", "agent")},
        devices=tuple(device["id"] for device in facts.get("devices", [])),
        ended=_moment(ended.get("ended"), ahead),
        dir=folder.path,
    )


def _processes(attempt: AttemptDir, index: int) -> list[dict[str, Any]]:
    recorded = read_object(attempt.node(index).exit)
    if recorded:
        return [process for process in recorded["processes"] if process["process"] != "setup"]
    found: dict[str, dict[str, Any]] = {}
    for event in read_events(attempt.node(index).events):
        if event["event"] == "start" and event["process"] != "setup":
            found[event["process"]] = dict(event, started=event["time"], ended=None, code=None, signal=None, stopped=False)
        elif event["event"] == "exit" and event["process"] in found:
            found[event["process"]].update(ended=event["time"], code=event["code"], signal=event["signal"])
    return list(found.values())


def _unstarted(name: str, rank: int, node: int, attempt: AttemptDir) -> RankView:
    return RankView(name, rank if rank >= 0 else None, node, log=attempt.node(node).log(name))


def _state(process: dict[str, Any], ended: bool) -> State:
    if process.get("ended") is None:
        return State.LOST if ended else State.RUNNING
    if process.get("stopped"):
        return State.STOPPED
    return State.SUCCEEDED if process.get("code") == 0 else State.FAILED

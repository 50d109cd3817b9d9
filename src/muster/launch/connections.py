"""Connections to ports of the nodes of a run, wherever these are, and to its endpoints by name."""

from __future__ import annotations

import socket
from functools import partial

from muster.dataclass import dataclass
from muster.engines import registry
from muster.engines.base import Place
from muster.engines.carriers import Carriers
from muster.job.endpoints import LOGIN
from muster.launch.names import RunNotFound, some
from muster.launch.run import Run
from muster.launch.start import packed_agent
from muster.records import endpoints
from muster.records.endpoints import EndpointView
from muster.records.files import read_object
from muster.records.layout import AttemptDir
from muster.records.untrusted import printable

MOST_USER = 100  # letters of a name


class NotReady(RunNotFound):
    """An endpoint that cannot be reached now, and why."""


@dataclass(frozen=True)
class Target:
    """A port of a node; with the token that opens it, if it is that of an endpoint."""

    node: int
    port: int
    kind: str = ""
    token: str = ""


def open_connection(run: Run, node: int, port: int, carriers: Carriers) -> socket.socket:
    """Connects to a port of a node. Raises NotReady and EngineError."""
    engine = registry.engine_of(run.dir)
    place = Place(run.id, run.job, node, run.handle or "", partial(packed_agent.build, run.dir.home))
    try:
        return engine.open_connection(place, port, carriers)
    except OSError:
        raise NotReady(f"nothing of {run.id} listens at port {port} of node {node}") from None


def target(run: Run, name: str) -> Target:
    """Where an endpoint is reached. Raises RunNotFound for one that the job does not have, NotReady for one that is not up."""
    attempt = _running(run)
    view = _find(run, name)
    if view.state in (endpoints.FAILED, endpoints.STARTING, endpoints.ENDED) or view.port is None:
        why = f": {view.reason}" if view.reason else ""
        raise NotReady(f"the endpoint `{name}` of {run.id} is not up ({view.state}){why}")
    key = endpoints.key(attempt)
    token = endpoints.token(key, name) if key and name != LOGIN else ""
    return Target(view.node, view.port, view.kind, token)


def node_of(run: Run, rank: int) -> int:
    """The node of a rank. Raises RunNotFound."""
    programs = {number: node for _, number, node in run.job.programs}
    if rank not in programs:
        raise RunNotFound(f"{run.id} has no rank {rank}; it has {some(map(str, sorted(programs)))}")
    return programs[rank]


def login_target(run: Run, node: int) -> Target:
    """Where people log in on a node. Raises RunNotFound and NotReady."""
    _find(run, LOGIN)
    port = endpoints.login_port(_running(run), node)
    if port is None:
        view = _find(run, LOGIN)
        raise NotReady(f"nobody can log in on node {node} of {run.id}" + (f": {view.reason}" if view.reason else " yet"))
    return Target(node, port, LOGIN)


def login_keys(run: Run) -> dict[str, str]:
    """With what people log in: `key`, the `host` key of the run's servers, and `user`. Raises RunNotFound and NotReady."""
    _find(run, LOGIN)
    attempt = _running(run)
    found, facts = endpoints.keys(attempt), read_object(attempt.node(0).facts)
    if not all(isinstance(found.get(name), str) for name in ("user", "host.pub")):
        raise NotReady(f"{run.id} has no keys for logins")
    user = printable(str(facts.get("user") or "")).replace(" ", "")[:MOST_USER]
    return {"key": str(found["user"]), "host": str(found["host.pub"]).strip(), "user": user}


def _running(run: Run) -> AttemptDir:
    attempt = run.dir.last_attempt()
    state = run.peek().state  # by its files: engines take long to answer
    if state.ended or attempt is None:
        raise NotReady(f"{run.id} is not running ({state})")
    return attempt


def _find(run: Run, name: str) -> EndpointView:
    known = run.endpoints()
    for view in known:
        if view.name == name:
            return view
    if name == LOGIN:
        raise RunNotFound(f"{run.id} takes no logins; write `login: true` into its job, or use `muster ssh`")
    has = f"it has {some(view.name for view in known)}" if known else "its job names none (`endpoints`)"
    raise RunNotFound(f"{run.id} has no endpoint `{name}`; {has}")

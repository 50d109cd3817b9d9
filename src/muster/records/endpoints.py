"""The endpoints of a run: their states as the agents of their nodes write them, and the tokens that open them.

Ranks can write the states, so that every value is checked. Tokens are derived from a key of the attempt, which lies with its
other keys and is deleted with them.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from muster.dataclass import asdict, dataclass
from muster.job import Job
from muster.job.endpoints import HELPERS, LOGIN
from muster.records.files import read_mapping
from muster.records.layout import NODE_FILES, AttemptDir
from muster.records.untrusted import number, printable, whole

STARTING, WAITING, READY, FAILED, ENDED = STATES = ("starting", "waiting", "ready", "failed", "ended")
KEY = "endpoints"  # in the keys of an attempt
MOST_REASON = 500  # characters
FILE = "endpoints.json"
NOT_RUNNING = "the run is not running"


@dataclass(frozen=True)
class EndpointView:
    """An endpoint as it stands."""

    name: str
    kind: str  # tensorboard, jupyter, login or service
    node: int
    state: str
    port: int | None = None
    reason: str = ""
    since: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> EndpointView:
        """Reads an endpoint as `muster show --json` has it."""
        texts = {name: printable(str(data.get(name) or ""))[:MOST_REASON] for name in ("name", "kind", "state", "reason")}
        return cls(**texts, node=whole(data.get("node")) or 0, port=_port(data.get("port")), since=number(data.get("since")))


def declared(job: Job) -> list[tuple[str, str, int]]:
    """The endpoints of a job: name, kind and node of each."""
    found = [(name, name if name in HELPERS else "service", endpoint.on) for name, endpoint in job.endpoints.items()]
    return [*found, *([(LOGIN, LOGIN, 0)] if job.login else [])]


def views(attempt: AttemptDir | None, job: Job, running: bool, why: str = NOT_RUNNING) -> list[EndpointView]:
    """The endpoints of a job, from what its nodes wrote; without a running attempt all have ended, or not begun."""
    found = []
    for name, kind, node in declared(job):
        port = job.endpoints[name].port if name in job.endpoints else None
        if attempt is None or not running:
            found.append(EndpointView(name, kind, node, ENDED if attempt else STARTING, port, why))
        else:
            found.append(_view(name, kind, node, port, _written(attempt, node).get(name)))
    return found


def login_port(attempt: AttemptDir, node: int) -> int | None:
    """The port of a node's ssh server for people, once it listens."""
    entry = _written(attempt, node).get(LOGIN)
    return _port(entry.get("port")) if isinstance(entry, dict) and entry.get("state") == READY else None


def key(attempt: AttemptDir) -> str:
    """The key of the endpoints of an attempt; nothing where it has ended, or has none."""
    return str(keys(attempt).get(KEY) or "")


def keys(attempt: AttemptDir) -> dict[str, Any]:
    return read_mapping(attempt.ssh + "/keys.json", 1 << 16) or {}


def token(key: str, name: str) -> str:
    """The token of an endpoint."""
    return hmac.new(key.encode(), f"endpoint {name}".encode(), hashlib.sha256).hexdigest()


def _written(attempt: AttemptDir, node: int) -> dict[str, Any]:
    return read_mapping(attempt.node(node).endpoints, NODE_FILES[FILE]) or {}


def _view(name: str, kind: str, node: int, port: int | None, entry: Any) -> EndpointView:
    if not isinstance(entry, dict) or entry.get("state") not in STATES:
        return EndpointView(name, kind, node, STARTING, port)
    reason = entry.get("reason")
    shown = printable(reason)[:MOST_REASON] if isinstance(reason, str) else ""
    return EndpointView(name, kind, node, entry["state"], port or _port(entry.get("port")), shown, number(entry.get("since")))


def _port(value: Any) -> int | None:
    found = whole(value)
    return found if found is not None and 0 < found < 65536 else None

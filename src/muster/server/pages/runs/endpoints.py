"""The endpoints of a run as its page shows them: how each stands, in words, and what the viewer may do with it."""

from dataclasses import dataclass
from typing import Any

from muster.bench.report.phrase import Phrase, same
from muster.job import Job
from muster.job.endpoints import ENVIRONMENT, HELPERS, IDLE_LIMIT, LOGIN
from muster.records.run_view import State
from muster.records.text.units import duration
from muster.server.core.access import Caller, Owned, may
from muster.server.pages.texts import say
from muster.server.runs import rows
from muster.server.runs.api.endpoints import Endpoint, list_endpoints
from muster.server.runs.endpoints.proxy import Endpoints
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row

COLOURS = {"starting": "starting", "waiting": "pending", "ready": "succeeded", "failed": "failed", "ended": "stopped"}
NAMES = {"tensorboard": "TensorBoard", "jupyter": "Jupyter"}
MOST_CHOICES = 1000  # ranks that are offered by name; of more, one is typed


@dataclass(frozen=True)
class Entrance:
    """One endpoint."""

    endpoint: Endpoint
    title: Phrase
    colour: str  # the class of its state
    says: Phrase
    reason: str  # as the node wrote it
    openable: bool
    logged: bool  # Muster started it, so that it has a log


@dataclass(frozen=True)
class Rank:
    rank: int
    host: str


@dataclass(frozen=True)
class Reaching:
    """What leads into a run."""

    entrances: list[Entrance]
    browsers: bool  # False: the server has no origins for endpoints
    enterable: bool  # by the viewer
    running: bool
    ended: bool
    ranks: list[Rank]  # beside which a terminal can be opened; none where there are too many to list
    highest: int  # the last rank
    attempt: int
    login: bool
    environment: bool
    idle: Phrase | None  # when an environment ends by itself
    server: str


def is_environment(row: Row) -> bool:
    return bool(row.job.get("kind") == ENVIRONMENT)


def reaching(platform: Platform, reached: Endpoints, caller: Caller, row: Row, run: dict[str, Any]) -> Reaching:
    """What leads into a run, from its details."""
    job, listed = Job.from_json(row.job), list_endpoints(platform, reached, row)
    enterable = may(caller.principal, "runs.enter", Owned(row.user, row.project))
    running = row.stage == rows.RUNNING and run["state"] == State.RUNNING
    browsers = listed.hint is None
    attempts = run.get("attempts") or [{}]
    numbers = {one["rank"]: one["node"] for one in attempts[-1].get("ranks") or [] if isinstance(one["rank"], int)}
    hosts = {node["node"]: str(node.get("host") or "") for node in attempts[-1].get("nodes") or []}
    ranks = [Rank(rank, hosts.get(numbers[rank], "")) for rank in sorted(numbers) if rank >= 0]
    return Reaching(
        [_entrance(one, row, enterable and browsers and running) for one in listed.items],
        browsers,
        enterable,
        running,
        row.stage == rows.ENDED,
        ranks if len(ranks) <= MOST_CHOICES else [],
        ranks[-1].rank if ranks else 0,
        attempts[-1].get("attempt") or 1,
        job.login,
        is_environment(row),
        _idle(job) if is_environment(row) else None,
        platform.url,
    )


def _entrance(one: Endpoint, row: Row, openable: bool) -> Entrance:
    title = say("endpoints.login") if one.kind == LOGIN else same(NAMES.get(one.kind, one.name))
    meaning = one.state
    if one.state == "starting" and row.stage in (rows.WAITING, rows.STARTING):
        meaning = "later"
    elif one.state == "ready" and one.kind == LOGIN:
        meaning = "login"
    reason = one.reason if one.state == "failed" else ""
    can = openable and one.kind != LOGIN and one.state == "ready"
    return Entrance(
        one,
        title,
        COLOURS[one.state],
        say(f"endpoints.says.{meaning}"),
        reason,
        can,
        one.kind in HELPERS and row.stage != rows.WAITING,
    )


def _idle(job: Job) -> Phrase:
    limit = IDLE_LIMIT if job.idle_limit is None else job.idle_limit
    return say("endpoints.idle", limit=duration(limit)) if limit else say("endpoints.idle.never")

"""The fields of a job for reaching it while it runs: endpoints, logins, and environments that only people use."""

from __future__ import annotations

import re
from typing import Any

from muster.dataclass import dataclass
from muster.job.kinds import Choice, Count, Duration, Flag, Item, Kind, Line, Section, Wrong, declared, each, nearest, scalar

TENSORBOARD, JUPYTER, LOGIN = "tensorboard", "jupyter", "login"
HELPERS = (TENSORBOARD, JUPYTER)  # endpoints that Muster starts itself
TRAINING, ENVIRONMENT = "training", "environment"
# A name is part of a host name, `NAME--RUN.DOMAIN`, whose labels have 63 letters at most.
NAME = r"^[a-z](-?[a-z0-9]){0,29}$"
MOST = 16
IDLE_LIMIT = 2 * 3600.0
MOST_NODE = 19999


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of a job: what listens, and on which node."""

    port: int | None = declared(Count(1, 65535, "ports end at 65535"), None, "The port at which the job's own service listens.")
    logdir: str = declared(Line(), "", "Of `tensorboard`: the directory with the event files, relative to where ranks start.")
    node: int | None = declared(Count(0, MOST_NODE), None, "The node on which it runs; that of rank 0 if left out.")

    @property
    def on(self) -> int:
        """The node on which it runs."""
        return self.node or 0


_SECTION = Section(Endpoint, "{port: 8000, node: 1}")


def variable(name: str, what: str) -> str:
    """The variable in which ranks find something of an endpoint, such as MUSTER_ENDPOINT_WEB_TOKEN."""
    return f"MUSTER_ENDPOINT_{name.upper().replace('-', '_')}_{what}"


class Endpoints(Kind):
    """Endpoints by name."""

    words = "a mapping of `tensorboard`, `jupyter` or names of your own to what they need"
    sample = "such as `{tensorboard: logs, jupyter: true, web: 8000}`"

    def read(self, item: Item) -> dict[str, Endpoint]:
        if not isinstance(item.value, dict):
            raise Wrong(f"is {item.shown}; it takes {self.words}", self.sample)
        found = {name: endpoint for name, endpoint in each(item.value.items(), self._pair) if endpoint is not None}
        if len(found) > MOST:
            raise Wrong(f"names {len(found)} endpoints", f"a job can have {MOST} of them")
        return found

    def _pair(self, name: str, item: Item) -> tuple[str, Endpoint | None]:
        if not re.fullmatch(NAME, name) or name in (LOGIN, "ssh"):
            meant = nearest(name, HELPERS)
            hint = "it takes at most 30 small letters, digits and single `-`, a letter in front"
            if name in (LOGIN, "ssh"):
                hint = "write `login: true` beside `endpoints` for logins"
            raise Wrong("cannot be the name of an endpoint", f"did you mean `{meant}`?" if meant else hint)
        return name, self._endpoint(name, item)

    def _endpoint(self, name: str, item: Item) -> Endpoint | None:
        if isinstance(item.value, dict):
            return self._checked(name, _SECTION.read(item))
        if name not in HELPERS:
            return Endpoint(port=Count(1, 65535, "ports end at 65535").read(item))
        text = scalar(item, "`true`" if name == JUPYTER else "a directory or `true`")
        if text in ("true", "false"):
            return Endpoint() if text == "true" else None
        if name == JUPYTER or text.isdigit():
            hint = "write `true`" if name == JUPYTER else "it takes a directory: Muster starts it and chooses its port"
            raise Wrong(f"{item.shown} is not known here", f"{hint}; a service of your own needs another name")
        return self._checked(name, Endpoint(logdir=Line().read(item)))

    def _checked(self, name: str, found: Endpoint) -> Endpoint:
        if name in HELPERS and found.port is not None:
            raise Wrong("has a `port`, and Muster chooses it", "remove it; a service of your own needs another name")
        if name not in HELPERS and found.port is None:
            raise Wrong("names no `port`", "write the one at which your service listens, such as `{port: 8000}`")
        if name != TENSORBOARD and found.logdir:
            raise Wrong("has a `logdir`, which only `tensorboard` reads", "remove it")
        if "://" in found.logdir:
            raise Wrong("names a URL", "write a directory of the node, such as one that `outputs` names")
        return found

    def put(self, outer: Item, inner: str, item: Item) -> Item:
        return outer.with_entry(inner.split("."), item)

    def schema(self) -> dict[str, Any]:
        port, section = {"type": "integer", "minimum": 1, "maximum": 65535}, _SECTION.schema()["anyOf"][0]
        flag = {"enum": [True, False]}
        return {
            "type": "object",
            "maxProperties": MOST,
            "properties": {
                TENSORBOARD: {"anyOf": [{"type": "string"}, flag, section]},
                JUPYTER: {"anyOf": [flag, section]},
            },
            "propertyNames": {"pattern": NAME},
            "additionalProperties": {"anyOf": [port, section]},
        }


KIND = declared(
    Choice((TRAINING, ENVIRONMENT), (("notebook", ENVIRONMENT), ("interactive", ENVIRONMENT), ("train", TRAINING))),
    TRAINING,
    "`environment`: nothing is trained. One node with its devices waits for people, who come by its endpoints, `muster ssh` or "
    "`login`, until `idle_limit` or `muster stop`.",
    "environment",
    "`training`",
)
ENDPOINTS = declared(
    Endpoints(),
    {},
    "What people reach while the job runs, by name: `tensorboard` with the directory of its event files and `jupyter`, which "
    "Muster starts beside the ranks with the job's Python, and services of the job's own with their ports "
    "(docs/endpoints.md).",
    "{tensorboard: logs, jupyter: true, web: 8000}",
    "none",
)
LOGIN_FIELD = declared(
    Flag(),
    False,
    "Each node has an ssh server of the run's own on its loopback address, for editors: `ProxyCommand muster connect RUN`.",
    "true",
    "`false`",
)
IDLE_FIELD = declared(
    Duration(zero=True),
    None,
    "With `kind: environment`: it ends when nobody has used it for this long; `0s` for never.",
    "4h",
    f"`{IDLE_LIMIT / 3600:g}h`",
)


def endpoints_from_json(data: Any) -> dict[str, Endpoint]:
    """Endpoints from their recorded form."""
    return {name: _SECTION.from_json(entry) for name, entry in (data or {}).items()}

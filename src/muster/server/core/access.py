"""Who may do what. Routes ask here and never compare roles themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from muster.tester.errors import Denied

READ_ONLY = "this token may only read; make one that may write with `muster tokens add NAME --scope write`"
ONLY_ADMINISTRATORS = "only administrators may do this; ask one of yours"
ONLY_MEMBERS = "your role in the project lets you look and not run jobs; ask a manager of the project"
ONLY_MANAGERS = "your role in the project does not allow this; ask a manager of the project"


@dataclass(frozen=True)
class Principal:
    """A user who was authenticated, and what the credential allows."""

    user_id: str
    name: str
    role: str  # administrator, or member
    scope: str  # write, or read
    projects: Mapping[str, str] = field(default_factory=dict)  # the user's role (manager, member, viewer) by project id
    expires: float | None = None  # when the token does that was shown; None for a session
    session: str | None = None  # the hash of the session, where it is one


@dataclass(frozen=True)
class Caller:
    """Who sends a request, and from where: what the audit log says of it."""

    name: str
    address: str
    principal: Principal


@dataclass(frozen=True)
class Owned:
    """Whose a bucket or a run is."""

    owner: str | None
    project: str | None


@dataclass(frozen=True)
class Serving:
    """Which project a pool serves, by its id; None for all."""

    project: str | None


Target = str | Owned | Serving | None  # the id of a user or project, whose a bucket or a run is, or whom a pool serves
Rule = Callable[[Principal, Target], bool]


def _anyone(principal: Principal, target: Target) -> bool:
    return True


def _administrator(principal: Principal, target: Target) -> bool:
    return principal.role == "administrator"


def _own(principal: Principal, target: Target) -> bool:
    return principal.user_id == target


def _own_or_administrator(principal: Principal, target: Target) -> bool:
    return _own(principal, target) or _administrator(principal, target)


def _in_project(*roles: str) -> Rule:
    return lambda principal, target: _administrator(principal, target) or principal.projects.get(str(target)) in roles


def _of_owned(*roles: str) -> Rule:
    def rule(principal: Principal, target: Target) -> bool:
        if not isinstance(target, Owned):
            return False
        owned = target.owner is not None and target.owner == principal.user_id
        return owned or (target.project is not None and _in_project(*roles)(principal, target.project))

    return rule


def _served(principal: Principal, target: Target) -> bool:
    if _administrator(principal, target):
        return True
    if not isinstance(target, Serving):
        return False
    return bool(principal.projects) if target.project is None else target.project in principal.projects


def _of_everybody(*roles: str) -> Rule:
    """The same, where what has neither an owner nor a project is everybody's."""

    def rule(principal: Principal, target: Target) -> bool:
        return target == Owned(None, None) or _of_owned(*roles)(principal, target)

    return rule


RULES: dict[str, Rule] = {
    "users.list": _administrator,
    "users.read": _own_or_administrator,
    "users.create": _administrator,
    "users.change": _administrator,
    "tokens.read": _own_or_administrator,
    "tokens.create": _own,
    "tokens.revoke": _own_or_administrator,
    "keys.read": _own_or_administrator,
    "keys.create": _own,
    "keys.revoke": _own_or_administrator,
    "password.change": _own,
    "projects.read": _in_project("manager", "member", "viewer"),
    "projects.create": _administrator,
    "projects.change": _in_project("manager"),
    "projects.rename": _administrator,  # names decide which pools serve a project, and as which accounts
    "projects.delete": _administrator,
    "projects.weigh": _administrator,
    "webhooks.read": _in_project("manager"),
    "webhooks.change": _in_project("manager"),
    "retention.read": _in_project("manager", "member", "viewer"),
    "templates.read": _of_everybody("manager", "member", "viewer"),
    "templates.change": _of_owned("manager", "member"),
    "templates.publish": _administrator,
    "usage.read": _anyone,
    "usage.by_user": _in_project("manager"),
    "buckets.read": _of_owned("manager", "member", "viewer"),
    "buckets.write": _of_owned("manager", "member"),
    "buckets.own": _of_owned("manager"),
    "buckets.create": _anyone,
    "buckets.limit": _administrator,
    "projects.work": _in_project("manager", "member"),
    "runs.submit": _in_project("manager", "member"),
    "runs.read": _of_owned("manager", "member", "viewer"),
    "runs.change": _of_owned("manager"),
    "queue.order": _administrator,
    "quotas.set": _administrator,
    "pools.read": _served,
    "pools.inspect": _administrator,
    "pools.drain": _administrator,
    "runs.enter": _of_owned("manager"),
    "code.send": _anyone,
    "plans.read": _anyone,
    "plans.change": _administrator,
    "results.read": _anyone,
    "results.submit": _anyone,
    "uploads.use": _own,
    "refusals.read": _own_or_administrator,
    "audit.read": _administrator,
    "settings.read": _administrator,
    "metrics.read": _administrator,
    "logout": _anyone,
}
READING = {"users.list", "pools.inspect", "usage.by_user", "logout", *(action for action in RULES if action.endswith(".read"))}
SEEN_BY = {
    "users": "users.read",
    "tokens": "tokens.read",
    "keys": "keys.read",
    "projects": "projects.read",
    "runs": "runs.read",
    "pools": "pools.read",
    "uploads": "uploads.use",
    "buckets": "buckets.read",
    "webhooks": "projects.read",
    "retention": "projects.read",
    "templates": "templates.read",
}
BY_MANAGERS = (
    "projects.change",
    "projects.work",
    "runs.change",
    "runs.enter",
    "buckets.own",
    "webhooks.read",
    "webhooks.change",
    "templates.change",
)


def may(principal: Principal, action: str, target: Target = None) -> bool:
    """True if a role and the credential allow an action on a target."""
    return (principal.scope == "write" or action in READING) and RULES[action](principal, target)


def demand(principal: Principal, action: str, target: Target = None, missing: str = "") -> None:
    """Raises Denied unless an action is allowed: with `missing`, the text for what does not exist, where it may not be seen."""
    if may(principal, action, target):
        return
    if may(replace(principal, scope="write"), action, target):
        raise Denied(403, READ_ONLY)
    if not missing:
        raise Denied(403, ONLY_ADMINISTRATORS)
    if action == "runs.submit" and may(principal, "projects.read", target):
        raise Denied(403, ONLY_MEMBERS)
    if may(principal, SEEN_BY[action.split(".")[0]], target):
        raise Denied(403, ONLY_MANAGERS if action in BY_MANAGERS else ONLY_ADMINISTRATORS)
    raise Denied(404, missing)

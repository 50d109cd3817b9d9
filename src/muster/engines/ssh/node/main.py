"""The entry of the ssh engine's node side: the supervisor's site, and the relay on a host."""

from __future__ import annotations

from muster.agent.supervisor.site import Assignment, Site
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that reaches its nodes over ssh."""
    from muster.engines.ssh.node.site import SshSite

    return SshSite(assignment, events)


def main(words: list[str]) -> int:
    """Runs the relay."""
    from muster.engines.ssh.node import relay

    word, *rest = words
    if word == "relay":
        relay.main(rest)
    raise SystemExit(f"unknown: {word}")

"""The entry of the ssh engine's node side: the supervisor's site, and what ssh starts on a host."""

from __future__ import annotations

from muster.agent.supervisor.site import Assignment, Site
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that reaches its nodes over ssh."""
    from muster.engines.ssh.node.site import SshSite

    return SshSite(assignment, events)


def main(words: list[str]) -> int:
    """Runs the relay, the survey, a command beside a rank, or the carrier of connections to ports of this host."""
    word, *rest = words
    if word == "relay":
        from muster.engines.ssh.node.host import relay

        relay.main(rest)
    if word == "survey":
        from muster.engines.ssh.node.host import survey

        return survey.main(rest)
    if word == "exec":
        from muster.engines.ssh.node.host import exec as host_exec

        return host_exec.main(rest)
    if word == "connect":
        from muster.channel.stream import carrier

        return carrier.main(rest)
    raise SystemExit(f"unknown: {word}")

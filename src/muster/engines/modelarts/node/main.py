"""The entry of the ModelArts engine's node side: the supervisor's site."""

from __future__ import annotations

from muster.agent.supervisor.site import Assignment, Site
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that follows a job of the service."""
    from muster.engines.modelarts.node.site import ModelArtsSite

    return ModelArtsSite(assignment, events)


def main(words: list[str]) -> int:
    raise SystemExit(f"unknown: {' '.join(words)}")

"""The entry of the ModelArts engine's node side: the supervisor's site, and what runs inside jobs."""

from __future__ import annotations

from muster.agent.supervisor.site import Assignment, Site
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that follows a job of the service."""
    from muster.engines.modelarts.node.site import ModelArtsSite

    return ModelArtsSite(assignment, events)


def main(words: list[str]) -> int:
    """Runs a worker of a job, the supervisor of the first one, or the program that reaches another worker."""
    word, *rest = words
    if word == "inside":
        from muster.engines.modelarts.node.inside import worker

        return worker.main(rest)
    if word == "supervise":
        from muster.engines.modelarts.node.inside import first

        return first.supervise(rest)
    if word == "dial":
        from muster.engines.modelarts.node.inside import line

        return line.main(rest)
    raise SystemExit(f"unknown: {word}")

"""The entry of the local engine's node side."""

from __future__ import annotations

from muster.agent.supervisor import supervisor as supervisor  # what will be needed is imported while it waits
from muster.agent.supervisor.site import Assignment, Site
from muster.engines.local.node.early import await_order as await_order
from muster.engines.local.node.site import LocalSite
from muster.records.files import Events


def site(assignment: Assignment, events: Events) -> Site:
    """Returns the site of a supervisor that runs on the user's machine."""
    return LocalSite(assignment, events)

"""What sites have in common whose supervisor is a process of this machine, which other processes of it start again."""

from __future__ import annotations

import os

from muster.agent.node import environment
from muster.agent.supervisor.site import Assignment, Site
from muster.linux import handles
from muster.records import submissions


class OwnSite(Site):
    assignment: Assignment

    def enter(self) -> bool:
        """Takes the place of its submission, also where whoever started it was killed before: one supervisor gets it."""
        number = int(environment.given().get(submissions.VARIABLE, "1"))
        own = handles.handle(os.getpid())
        return number == 1 or (own is not None and submissions.claim(self.assignment.run, number, own, ""))

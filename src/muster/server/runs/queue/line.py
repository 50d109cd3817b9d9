"""Runs that wait, in their order, and which of them a user may see: who sees a few of thousands looks through no others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain

from muster.server.runs.scheduling.model import Waiting


class Line:
    def __init__(self, runs: Iterable[Waiting]) -> None:
        self._runs = tuple(runs)

    def visible(self, sees: Callable[[str, str], bool]) -> Sequence[Waiting]:
        """The runs of those users and projects for which `sees` is true, in the order of the line."""
        found = [places for (user, project), places in self._places.items() if sees(user, project)]
        if len(found) == len(self._places):
            return self._runs
        return [self._runs[place] for place in sorted(chain.from_iterable(found))]

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[int]]:
        """The places of the runs of each user in each project, made when they are needed first."""
        found = defaultdict(list)
        for place, run in enumerate(self._runs):
            found[run.user, run.project].append(place)
        return found

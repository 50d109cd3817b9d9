"""Looking at many runs at once: each engine is asked one question about all of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from muster.engines import registry
from muster.engines.base import EngineError
from muster.launch import create
from muster.launch.names import RunNotFound
from muster.launch.run import Run
from muster.records import submissions
from muster.records.layout import home
from muster.records.state import Status, recorded


def views(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Everything about each of the runs; those that are removed meanwhile are left out.

    Where an engine cannot be reached, its runs are told as their files tell them, and EngineError is raised after the last.
    """
    answers, trouble = _ask(runs)
    for run in runs:
        try:
            yield run.view_with(answers.get(run.id))
        except RunNotFound:
            continue
        except EngineError as error:
            trouble = error
            yield run.peek()
    if trouble is not None:
        raise trouble


def _ask(runs: Sequence[Run]) -> tuple[dict[str, Status], EngineError | None]:
    """What the engines say of runs that have not ended, by the ids of the runs."""
    handles: dict[str, dict[str, str]] = {}
    for run in (run for run in runs if recorded(run.dir) is None):
        handle = submissions.handle(run.dir)
        if handle and not create.under_way(run.dir):
            handles.setdefault(registry.engine_name(run.dir), {})[run.id] = handle
    answers: dict[str, Status] = {}
    trouble: EngineError | None = None
    for name, known in handles.items():
        try:
            said = registry.get(name, home()).status(known.values())
            answers.update({run: said[handle] for run, handle in known.items()})
        except EngineError as error:
            trouble = error
            answers.update(dict.fromkeys(known, Status(True, str(error))))
    return answers, trouble

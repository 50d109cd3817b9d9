"""The route of a run's numbers over time."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from muster.job import Job
from muster.records.files import read_events
from muster.records.layout import RunDir
from muster.records.untrusted import number
from muster.server.core.api.models import PREFIX, UNCHANGED, IfNoneMatch, errors, tagged
from muster.server.runs import rows
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.series import recorded, sampled
from muster.server.runs.series.model import By, Charts, Over

router = APIRouter(prefix=PREFIX + "/runs/{run}")


@router.get("/series", responses={**errors(401, 404), **UNCHANGED})
def get_series(
    response: Response,
    platform: Shared,
    row: Seen,
    by: Annotated[By, Query(description="A line for each rank or device, for each node, or their mean.")] = "mean",
    over: Annotated[Over, Query(description="Metrics without steps are always drawn over time.")] = "step",
    attempt: Annotated[int | None, Query(ge=1, lt=1 << 31, description="The last without it.")] = None,
    if_none_match: IfNoneMatch = None,
) -> Charts:
    """What ranks recorded or wrote into their logs and what was sampled of the machines over time, thinned for charts.

    Long logs are read a part at a time: while `reading` is true, ask again.
    """
    run = platform.run_dir(row)
    numbers = run.attempt_numbers() if row.stage in (rows.RUNNING, rows.ENDED) else []
    chosen = attempt if attempt in numbers else numbers[-1] if numbers else 0
    if not chosen:
        return tagged(response, Charts(0, [], by, None, [], []), if_none_match)
    folder, start = run.attempt(chosen), _start(run, chosen)
    job = Job.from_json(row.job)
    ended = row.stage == rows.ENDED or chosen != numbers[-1]
    logged = platform.log_numbers.of(folder, job, start, ended)
    made = recorded.charts(folder, job, by, over, start, logged)
    found = Charts(chosen, numbers, by, start, made, sampled.charts(folder, by, start), logged.reading)
    return tagged(response, found, if_none_match)


def _start(run: RunDir, attempt: int) -> float:
    """When an attempt began."""
    begun = (number(event.get("time")) for event in read_events(run.events) if event.get("attempt") == attempt)
    return next((time for time in begun if time is not None), 0.0)

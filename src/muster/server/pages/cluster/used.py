"""Device hours of the last weeks: by project and by user, and as a CSV file by day."""

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster.bench.report.formats.as_csv import cell
from muster.server.core.access import Caller
from muster.server.core.authentication import Asking, Context
from muster.server.results.web.csv_files import CsvResponse
from muster.server.runs.api.queue import usage
from muster.server.runs.usage import DAY, By, Used

router = APIRouter(include_in_schema=False)
WEEK = 7 * DAY
SHOWN = 20  # rows of a table
COLUMNS: tuple[By, ...] = ("day", "project", "user", "pool", "kind")
Weeks = Annotated[int, Query(ge=1, le=52)]


@dataclass(frozen=True)
class Bar:
    name: str | None  # None where the viewer's role does not tell
    hours: float
    share: float  # of the largest, up to 100


@router.get("/cluster/usage.csv")
def usage_csv(context: Context, caller: Asking, weeks: Weeks = 4) -> CsvResponse:
    """Device hours by day, project, user, pool and kind."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*COLUMNS, "device_hours"])
    for one in _found(context, caller, weeks, *COLUMNS):
        day = time.strftime("%Y-%m-%d", time.gmtime(one.day or 0))
        writer.writerow([day, cell(one.project), cell(one.user), cell(one.pool), cell(one.kind), one.device_hours])
    return CsvResponse(text.getvalue(), headers={"Content-Disposition": 'attachment; filename="usage.csv"'})


def tables(context: Context, caller: Caller, weeks: int) -> dict[str, Any]:
    """What the page of the cluster shows of the last weeks."""
    by_project = [(one.project, one.device_hours) for one in _found(context, caller, weeks, "project")]
    by_user = [(one.user, one.device_hours) for one in _found(context, caller, weeks, "user")]
    return {"used": {"project": _bars(by_project), "user": _bars(by_user)}}


def _found(context: Context, caller: Caller, weeks: int, *by: By) -> list[Used]:
    now = time.time()
    return usage.get_usage(context, caller, now - weeks * WEEK, now, list(by)).items


def _bars(found: Sequence[tuple[str | None, float]]) -> list[Bar]:
    most = max((hours for _, hours in found), default=0.0) or 1.0
    return [Bar(name, hours, round(100 * hours / most, 2)) for name, hours in found[:SHOWN]]

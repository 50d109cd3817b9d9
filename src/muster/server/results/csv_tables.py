"""Results and rankings as CSV, in which no cell is a formula for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi.responses import PlainTextResponse

from muster.bench.report.formats.as_csv import cell
from muster.server.results.result_row import ResultRow
from muster.server.results.results import Ranking

PLANNED = ("model", "division", "scenario", "mode", "object_type", "test_id")
MEASURED = ("value", "unit", "accuracy", "samples_per_joule", "nodes", "devices", "hardware", "signature", "signed_by")
LISTED = ("number", "bench", *PLANNED, "name", "submitter", "received", "passed", "metric", *MEASURED, "sha256")
YES_NO = {True: "yes", False: "no"}
RANKED = ("number", "bench", "submitter", "received", *MEASURED)


def results_csv(results: Iterable[ResultRow]) -> str:
    return _csv(LISTED, ([getattr(result, name) for name in LISTED] for result in results), LISTED.index("received"))


def rankings_csv(rankings: Iterable[Ranking]) -> str:
    heads = ["model", "division", "scenario", "metric", "rank", *RANKED]
    rows = (
        [ranking.model, ranking.division, ranking.scenario, ranking.metric, rank, *(getattr(entry, name) for name in RANKED)]
        for ranking in rankings
        for rank, entry in enumerate(ranking.entries, 1)
    )
    return _csv(heads, rows, heads.index("received"))


def response(text: str, name: str) -> PlainTextResponse:
    return PlainTextResponse(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _csv(heads: Sequence[str], rows: Iterable[list[Any]], received: int) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(heads)
    for row in rows:
        row[received] = datetime.fromtimestamp(row[received], UTC).isoformat(timespec="seconds")
        writer.writerow([YES_NO[value] if isinstance(value, bool) else cell(value) for value in row])
    return text.getvalue()

"""Lists and rankings as CSV files, in which no cell is a formula for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi.responses import PlainTextResponse

from muster.bench.report.formats.as_csv import cell

# The columns of CSV files.
PLANNED = ("model", "division", "scenario", "mode", "object_type", "test_id")
MEASURED = ("value", "unit", "accuracy", "samples_per_joule", "nodes", "devices", "hardware", "signature", "signed_by")
LISTED = ("number", "bench", *PLANNED, "name", "submitter", "received", "passed", "metric", *MEASURED, "sha256")
YES_NO = {True: "yes", False: "no"}
RANKED = ("model", "division", "scenario", "metric", "rank", "number", "bench", "submitter", "received", *MEASURED)


class CsvResponse(PlainTextResponse):
    media_type = "text/csv"


def csv_response(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], name: str) -> CsvResponse:
    """Returns rows as a CSV file of this name."""
    return CsvResponse(csv_table(columns, rows), headers={"Content-Disposition": f'attachment; filename="{name}"'})


def csv_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV, in which no cell is a formula for a spreadsheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    for row in rows:
        received = datetime.fromtimestamp(row["received"], UTC).isoformat(timespec="seconds")
        shown = {name: received if name == "received" else row[name] for name in columns}
        writer.writerow({name: YES_NO[value] if isinstance(value, bool) else cell(value) for name, value in shown.items()})
    return text.getvalue()

"""The job file of a template: checked as far as it can be without code, or made from that of a run."""

from pathlib import Path
from typing import Any

import yaml

from muster.dataclass import replace
from muster.job import Job
from muster.job.load import load_text
from muster.job.source import JobError, parse
from muster.job.written import written
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

OF_CODE = ("code", "boot", "python")  # fields whose files are looked for once the code is there
OF_POOL = ("code", "hosts")  # fields that the server filled in for the run
MOST = 1 << 20  # letters


def check(text: str, file: str) -> None:
    """Raises JobError with all mistakes that can be seen without the code of a job."""
    loaded = load_text(text, [], Path("/"), file)
    found = [one for one in loaded.problems if one.field not in OF_CODE or one.field in loaded.unread]
    replace(loaded, problems=tuple(found)).checked()


def of_run(row: Row) -> str:
    """The job of a run as a job file: its fields as they were used, without what its pool added."""
    fields = {name: value for name, value in written(Job.from_json(row.job)).items() if name not in OF_POOL}
    try:
        given: Any = parse(row.source, "job.yaml")[0].value
    except JobError:
        given = {}
    if "python" not in (given if isinstance(given, dict) else {}):
        fields.pop("python", None)
    if "://" in str(row.job.get("code")):
        fields["code"] = row.job["code"]
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
    if len(text) > MOST:
        raise Denied(400, f"the job of {row.id} is too long for a template")
    return text

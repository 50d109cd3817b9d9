"""`muster bench` on a server: its runs are started there, and their records are fetched to compute the result from them."""

from __future__ import annotations

from collections.abc import Sequence

from muster.bench import runner
from muster.cli import output, places
from muster.cli.bench_command import Measured
from muster.cli.remote import Target, upload
from muster.client import records
from muster.client.runs import RemoteRun
from muster.client.submission import prepare as prepare_submission
from muster.dataclass import replace
from muster.job import Bench


def prepare(server: str, project: str | None, pool: str | None, job: str, changes: Sequence[str]) -> Measured[RemoteRun]:
    """Checks a job that is to be measured and uploads its code; one that does not say how is measured in the plain way."""
    opened = places.opened(server)
    submission = prepare_submission(job, changes, opened.home, output.say)
    runner.check(submission.job, submission.file)
    if submission.job.bench is None:
        plain = Bench()
        sets = (*submission.sets, f"bench.repeats={plain.repeats}")
        submission = replace(submission, job=replace(submission.job, bench=plain), sets=sets)
    target = Target(server, project, pool)
    uploaded = upload(opened, submission, target)
    place = records.place(opened)
    return Measured(submission.job, place, lambda: target.start(uploaded), True, lambda run: records.fetch(opened, run.id))

"""Writes the report of one run as a part of a page: `python -m muster.server.runs.report_worker RUN_DIRECTORY`."""

import resource
import sys

from muster.bench import result, samples
from muster.bench.errors import ResultError
from muster.bench.report.formats import as_html
from muster.launch.run import Run
from muster.records.damage import Damaged
from muster.records.layout import RunDir

MEMORY = 4 << 30  # bytes
SECONDS = 60


def main(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    run = RunDir(path)
    try:
        made = result.make(result.single(run), [run], {run.id: Run(run).view})
        found = {one.run: samples.of_run(run, one.attempt) for one in made.runs if one.attempt}
        print(as_html.fragment([made], found))
    except (Damaged, ResultError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])

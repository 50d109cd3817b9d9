"""The report of a run's result. A process of its own computes it: patterns of a job, which anybody writes, may take forever."""

import subprocess
import sys
from functools import lru_cache

from markupsafe import Markup

from muster.records.layout import RunDir

LIMIT = 60.0  # seconds
KEPT = 32  # reports of runs that ended


def fragment(run: RunDir) -> Markup | str:
    """The report as a part of a page; a text that says why there is none instead."""
    try:
        return _made(run.path)
    except subprocess.TimeoutExpired:
        return f"it took more than {LIMIT:.0f} seconds; `muster report` computes it without a limit"
    except subprocess.CalledProcessError as error:
        said: list[str] = error.stderr.strip().splitlines()
        return said[-1][:500] if said else "it ended without a word"


@lru_cache(KEPT)
def _made(path: str) -> Markup:
    command = [sys.executable, "-m", "muster.server.runs.report_worker", path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=True)
    return Markup(done.stdout)

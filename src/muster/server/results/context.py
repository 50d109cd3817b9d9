"""Application state of the results section."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.server.core.access import Principal
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.results.layout import BundleFolder
from muster.server.results.submissions import Submissions
from muster.server.results.uploads import Limits
from muster.server.results.verify_pool import VerifyPool

VERIFY_WORKERS = 2


@dataclass(frozen=True)
class ResultsContext:
    files: BundleFolder
    submissions: Submissions
    tester: bool  # it is served alone, by `muster tester serve`: people log in with tokens
    anyone: Principal | None  # who reads and submits without a token, where that is allowed


@contextmanager
def opened(
    layout: ServerLayout,
    database: Database,
    limits: Limits,
    signers: Path | None = None,
    tester: bool = False,
    anyone: Principal | None = None,
) -> Iterator[ResultsContext]:
    """Opens the section over a data directory and a database; ends its worker processes at the end."""
    files = BundleFolder(layout.bundles)
    with closing(VerifyPool(VERIFY_WORKERS, layout.scratch)) as pool:
        yield ResultsContext(files, Submissions(files, database, pool, limits, signers), tester, anyone)

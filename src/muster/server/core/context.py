"""Server application state."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.server.core.layout import ServerLayout
from muster.server.core.tokens import Tokens
from muster.server.results.submissions import Submissions
from muster.server.results.uploads import Limits
from muster.server.results.verify_pool import VerifyPool

VERIFY_WORKERS = 2


@dataclass(frozen=True)
class AppContext:
    layout: ServerLayout
    tokens: Tokens
    submissions: Submissions
    open: bool  # no token is needed
    secure: bool  # the server speaks TLS


@contextmanager
def opened(folder: Path, limits: Limits, signers: Path | None, free: bool, secure: bool) -> Iterator[AppContext]:
    """Locks a tester's directory and opens its database and worker pool; closes all of them at the end."""
    layout = ServerLayout(folder)
    with layout.locked(), closing(layout.database()) as database, closing(VerifyPool(VERIFY_WORKERS, layout.scratch)) as pool:
        yield AppContext(layout, Tokens(database), Submissions(layout, database, pool, limits, signers), free, secure)

"""All that a running tester has, in one hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.server.core.layout import Place
from muster.server.core.tokens import Tokens
from muster.server.results.submissions import Intake
from muster.server.results.uploads import Limits
from muster.server.results.verify_pool import Judges

JUDGES = 2


@dataclass(frozen=True)
class House:
    place: Place
    tokens: Tokens
    intake: Intake
    open: bool  # nobody needs a token
    secure: bool  # the server speaks TLS


@contextmanager
def opened(folder: Path, limits: Limits, signers: Path | None, free: bool, secure: bool) -> Iterator[House]:
    """Takes possession of a tester's directory, and gives it back."""
    place = Place(folder)
    with place.held():
        database = place.database()
        judges = Judges(JUDGES, place.scratch)
        try:
            yield House(place, Tokens(database), Intake(place, database, judges, limits, signers), free, secure)
        finally:
            judges.close()
            database.close()

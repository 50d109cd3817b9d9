"""Finding the tester that a user means, and the token for it."""

from __future__ import annotations

import os
from pathlib import Path

from muster import config
from muster.tester.client import Client
from muster.tester.errors import Misused


def connect(home: Path, url: str | None = None) -> Client:
    """A client of the given tester, else of the one in the settings under a home."""
    settings = config.load(str(home)).tester
    chosen = url or settings.url
    if not chosen:
        raise Misused("no tester is named; give --tester URL, or write its `url` under [tester] in config.toml")
    return Client(chosen, settings.token_for(chosen, os.environ), Path(settings.ca) if settings.ca else None)

"""Bundles of results that a server has, fetched to be verified here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from muster.client.server import RESULTS

if TYPE_CHECKING:
    from muster.client.api import Server

PIECE = 1 << 20


@contextmanager
def fetched(server: Server, number: str) -> Iterator[Path]:
    """Fetches the bundle of a result into a file that is deleted afterwards. Raises Rejected where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"result-{number}.tar.gz")
        with server.client.stream("GET", "results", number, "bundle", api=RESULTS) as answer, path.open("wb") as file:
            for data in answer.iter_bytes(PIECE):
                file.write(data)
        yield path

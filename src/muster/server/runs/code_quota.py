"""How much code of each user is kept: what is there, and what is on its way."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.tester.errors import Denied

MOST = 20 << 30  # bytes of one user, unless the server is told otherwise
FULL = (
    "your code would take {:.1f} GB on the server, and {:.1f} GB is the most; leave data out with .musterignore or put it into "
    "the store, or wait: code that nobody used for 14 days is deleted"
)


class CodeQuota:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._coming: Counter[str] = Counter()  # bytes by user
        self._lock = threading.Lock()

    @contextmanager
    def room(self, folder: Path, size: int) -> Iterator[None]:
        """Keeps room for so many bytes in the folder of a user, while these are written. Raises Denied."""
        user = folder.name
        with self._lock:
            self._coming[user] += size
            wanted = self._coming[user]
        try:
            total = wanted + used(folder)
            if total > self._most:
                raise Denied(413, FULL.format(total / (1 << 30), self._most / (1 << 30)))
            yield
        finally:
            with self._lock:
                self._coming[user] -= size
                if not self._coming[user]:
                    del self._coming[user]


def used(folder: Path) -> int:
    """The bytes of the files in a folder, which others may add to and delete from meanwhile."""
    total = 0
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return 0
    for entry in entries:
        try:
            total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return total

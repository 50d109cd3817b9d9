"""Keeps what was read of the database in memory until a write transaction changes the tables that it came from."""

import time
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from sqlalchemy import Table

from muster.server.core.database import Database

MOST = 10_000  # entries; no client can fill the memory with names that it makes up
FRESH = 1.0  # seconds after which an entry is read again: bounds what others than this server may write
Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Values by name. One that was read before a change was committed is not used once the change was answered."""

    def __init__(self, database: Database, *tables: Table) -> None:
        self._database = database
        self._tables: Collection[str] = [table.name for table in tables]
        self._entries: dict[str, tuple[int, float, Value]] = {}  # with the generation and the time at which it was read

    def get(self, name: str, read: Callable[[], Value | None]) -> Value | None:
        """Returns the value of a name, which `read` reads; what is not there is never kept."""
        generation, now = self._database.generation(self._tables), time.monotonic()
        entry = self._entries.get(name)
        if entry is not None and entry[0] == generation and now - entry[1] < FRESH:
            return entry[2]
        value = read()
        if value is None:
            self._entries.pop(name, None)
            return None
        if len(self._entries) >= MOST:
            self._entries.clear()
        self._entries[name] = generation, now, value
        return value

"""Who may read and who may submit: tokens that are shown once, of which the database holds hashes alone."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from dataclasses import dataclass

from muster.server.core.database import Database
from muster.tester.errors import Misused
from muster.tester.plan import ALLOWED, NAME

ROLES = ("submit", "read")  # whoever may submit may read, too
SESSION = 30 * 24 * 3600.0
ANYONE = "anyone"  # who sends to an open tester without a token


@dataclass(frozen=True)
class Token:
    name: str
    role: str
    created: float
    revoked: float | None = None


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, role: str) -> str:
        """Makes a token and returns it, once. A name whose token was revoked may have a new one."""
        if not NAME.fullmatch(name) or name == ANYONE:
            raise Misused(f"`{name}` cannot name a submitter; {ALLOWED}")
        secret = "muster_" + secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            row = connection.execute("SELECT revoked FROM tokens WHERE name = ?", (name,)).fetchone()
            if row and row["revoked"] is None:
                raise Misused(f"`{name}` has a token already; revoke it first, or choose another name")
            _end_sessions(connection, name)
            connection.execute(
                "INSERT OR REPLACE INTO tokens (name, role, hash, created) VALUES (?, ?, ?, ?)",
                (name, role, hashed(secret), time.time()),
            )
        return secret

    def all(self) -> list[Token]:
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute("SELECT * FROM tokens ORDER BY name")]

    def revoke(self, name: str) -> None:
        """Takes a token back; pages that were opened with it close, too."""
        with self._database.writing() as connection:
            statement = "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL"
            if not connection.execute(statement, (time.time(), name)).rowcount:
                raise Misused(f"`{name}` has no token; `muster tester token list` shows who has one")
            _end_sessions(connection, name)

    def of(self, secret: str) -> Token | None:
        """Whose token this is, unless nobody's any more."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT * FROM tokens WHERE hash = ? AND revoked IS NULL", (hashed(secret),)).fetchone()
        return _token(row) if row else None

    def begin_session(self, secret: str) -> str | None:
        """What a browser keeps instead of a token: it reads, for some time, and cannot submit."""
        if self.of(secret) is None:
            return None
        session = secrets.token_urlsafe(32)
        now = time.time()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE until < ?", (now,))
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", (hashed(session), hashed(secret), now + SESSION))
        return session

    def in_session(self, session: str) -> Token | None:
        statement = (
            "SELECT tokens.* FROM sessions JOIN tokens ON tokens.hash = sessions.token"
            " WHERE sessions.hash = ? AND until > ? AND revoked IS NULL"
        )
        with self._database.reading() as connection:
            row = connection.execute(statement, (hashed(session), time.time())).fetchone()
        return _token(row) if row else None

    def end_session(self, session: str) -> None:
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE hash = ?", (hashed(session),))


def hashed(secret: str) -> str:
    """Tokens have 256 random bits: a plain hash cannot be turned back."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _end_sessions(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM sessions WHERE token IN (SELECT hash FROM tokens WHERE name = ?)", (name,))


def _token(row: sqlite3.Row) -> Token:
    return Token(row["name"], row["role"], row["created"], row["revoked"])

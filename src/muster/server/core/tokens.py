"""Tokens of submitters and readers, of which the database holds only hashes, and sessions of browsers."""

import hashlib
import secrets
import sqlite3
import time
from dataclasses import dataclass

from muster.server.core.database import Database, insert
from muster.tester.errors import Misused
from muster.tester.protocol import ALLOWED, NAME

SESSION = 30 * 24 * 3600.0  # seconds
SELECT = "SELECT name, role, created, revoked FROM tokens"
ANYONE = "anyone"  # the name of a submitter without a token, where the tester is open


@dataclass(frozen=True)
class Token:
    name: str
    role: str  # read, or submit, which includes reading
    created: float
    revoked: float | None = None


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, role: str) -> str:
        """Makes a token and returns its secret, which is not stored. A name whose token was revoked may get a new one."""
        if not NAME.fullmatch(name) or name == ANYONE:
            raise Misused(f"`{name}` cannot name a submitter; {ALLOWED}")
        secret = "muster_" + secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            row = connection.execute("SELECT revoked FROM tokens WHERE name = ?", (name,)).fetchone()
            if row and row["revoked"] is None:
                raise Misused(f"`{name}` has a token already; revoke it first, or choose another name")
            _end_sessions(connection, name)
            token = vars(Token(name, role, time.time()))
            insert(connection, "tokens", {**token, "hash": hashed(secret)}, "INSERT OR REPLACE")
        return secret

    def all(self) -> list[Token]:
        return [Token(**row) for row in self._database.select(f"{SELECT} ORDER BY name")]

    def revoke(self, name: str) -> None:
        """Revokes a token and ends its sessions."""
        with self._database.writing() as connection:
            statement = "UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL"
            if not connection.execute(statement, (time.time(), name)).rowcount:
                raise Misused(f"`{name}` has no token; `muster tester token list` shows who has one")
            _end_sessions(connection, name)

    def find(self, secret: str) -> Token | None:
        """Returns the token with this secret, unless it was revoked."""
        return self._token("WHERE hash = ? AND revoked IS NULL", hashed(secret))

    def in_session(self, secret: str) -> Token | None:
        """Returns the token of a session, unless one of them has ended."""
        of_session = "JOIN sessions ON token = tokens.hash WHERE sessions.hash = ? AND until > ? AND revoked IS NULL"
        return self._token(of_session, hashed(secret), time.time())

    def begin_session(self, token: str) -> str | None:
        """Begins a session, which reads and cannot submit, and returns its secret; None where the token is not valid."""
        if self.find(token) is None:
            return None
        secret = secrets.token_urlsafe(32)
        now = time.time()
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE until < ?", (now,))
            insert(connection, "sessions", {"hash": hashed(secret), "token": hashed(token), "until": now + SESSION})
        return secret

    def end_session(self, secret: str) -> None:
        with self._database.writing() as connection:
            connection.execute("DELETE FROM sessions WHERE hash = ?", (hashed(secret),))

    def _token(self, clauses: str, *values: object) -> Token | None:
        return next((Token(**row) for row in self._database.select(f"{SELECT} {clauses}", *values)), None)


def hashed(secret: str) -> str:
    """Secrets have 256 random bits, so that a plain hash cannot be reversed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _end_sessions(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM sessions WHERE token IN (SELECT hash FROM tokens WHERE name = ?)", (name,))

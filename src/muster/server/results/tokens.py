"""Tokens of the tester, made on its machine: each belongs to a user of its name, who has no password."""

import re
import time
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from muster.server.core import audit, tables
from muster.server.core.access import Caller
from muster.server.core.accounts import users
from muster.server.core.accounts.random_secrets import hashed, new_secret
from muster.server.core.api.models import ACCOUNT_NAME
from muster.server.core.database import Database
from muster.server.core.tables import new_id, sessions
from muster.tester.errors import Misused
from muster.tester.protocol import ALLOWED

ANYONE = "anyone"  # the name of a submitter without a token, where the tester is open
LABEL = "tester"  # the name of these tokens among those of a user
PREFIX = "muster_"
SCOPES = {"submit": "write", "read": "read"}
ROLES = {scope: role for role, scope in SCOPES.items()}
tokens = tables.tokens


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
        if not re.fullmatch(ACCOUNT_NAME, name) or name == ANYONE:
            raise Misused(f"`{name}` cannot name a submitter; {ALLOWED}, not beginning with `u-` or `p-`")
        secret = new_secret(PREFIX)
        with self._database.begin() as connection:
            user = user_of(connection, name)
            if user.role == "administrator" or user.has_password or user.disabled:
                raise Misused(f"`{name}` is an account of the server, whose owner makes tokens with `muster tokens add`")
            if connection.scalar(select(tokens.c.id).where(*_valid(user.id))):
                raise Misused(f"`{name}` has a token already; revoke it first, or choose another name")
            store(connection, None, user.id, Token(name, role, time.time()), hashed(secret))
        return secret

    def all(self) -> list[Token]:
        """The last token of each name."""
        columns = (tables.users.c.name, tokens.c.scope, tokens.c.created, tokens.c.revoked)
        statement = select(*columns).select_from(tokens.join(tables.users)).where(tokens.c.name == LABEL)
        with self._database.read() as connection:
            rows = connection.execute(statement.order_by(tables.users.c.name, tokens.c.created)).all()
        return list({row.name: Token(row.name, ROLES[row.scope], row.created, row.revoked) for row in rows}.values())

    def revoke(self, name: str) -> None:
        """Revokes a token and ends the sessions that began with it."""
        with self._database.begin() as connection:
            user = users.find(connection, name)
            found = list(connection.scalars(select(tokens.c.id).where(*_valid(user.id)))) if user else []
            if user is None or not found:
                raise Misused(f"`{name}` has no token; `muster tester token list` shows who has one")
            connection.execute(update(tokens).where(tokens.c.id.in_(found)).values(revoked=time.time()))
            connection.execute(delete(sessions).where(sessions.c.user == user.id, sessions.c.scope == "read"))
            audit.record(connection, None, "token.revoke", found[0], before={"name": LABEL, "user": user.id})


def user_of(connection: Connection, name: str, caller: Caller | None = None) -> users.User:
    """Returns the user of a submitter's name, who is made where there is none."""
    return users.find(connection, name) or users.create(connection, caller, name, "member", None)


def store(connection: Connection, caller: Caller | None, user_id: str, token: Token, token_hash: str) -> None:
    """Adds the row of a token that does not expire."""
    row = {"id": new_id("t"), "user": user_id, "name": LABEL, "scope": SCOPES[token.role], "hash": token_hash}
    connection.execute(insert(tokens).values(**row, created=token.created, revoked=token.revoked))
    audit.record(connection, caller, "token.create", row["id"], after={"name": LABEL, "scope": row["scope"], "expires": None})


def _valid(user_id: str) -> tuple[ColumnElement[bool], ...]:
    return tokens.c.user == user_id, tokens.c.name == LABEL, tokens.c.revoked.is_(None)

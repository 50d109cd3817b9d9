"""Throttled logins: failures are counted by user and by address, in the database, so that a restart forgets none."""

import ipaddress
import math
import time

from sqlalchemy import Connection, delete, select

from muster.server.core.accounts.random_secrets import hashed
from muster.server.core.database import Database, upsert
from muster.server.core.tables import login_failures as failures
from muster.tester.errors import Denied

WINDOW = 15 * 60.0  # seconds
PER_USER, PER_ADDRESS = 10, 50  # failures in a window
MOST_SUBJECTS = 10_000  # users and addresses that are remembered at once; the oldest are forgotten


def attempt(database: Database, name: str, address: str) -> None:
    """Counts an attempt before its password is checked, so that many at once cannot pass; raises Denied after too many."""
    now = time.time()
    with database.begin() as connection:
        connection.execute(delete(failures).where(failures.c.since < now - WINDOW))
        for subject, most in ((_of_user(name), PER_USER), (_of_address(address), PER_ADDRESS)):
            _count(connection, subject, now)
            row = connection.execute(select(failures).where(failures.c.subject == subject)).mappings().one()
            if row["failures"] > most:
                wait = math.ceil(row["since"] + WINDOW - now)
                raise Denied(429, f"too many failed logins; wait {wait} seconds and try again", retry_after=wait)
        oldest = select(failures.c.subject).order_by(failures.c.since.desc()).offset(MOST_SUBJECTS)
        connection.execute(delete(failures).where(failures.c.subject.in_(oldest)))


def succeeded(connection: Connection, name: str, address: str) -> None:
    """Forgets the failures of a user who logged in, and this attempt of the address."""
    connection.execute(delete(failures).where(failures.c.subject == _of_user(name)))
    of_address = failures.c.subject == _of_address(address)
    connection.execute(failures.update().where(of_address).values(failures=failures.c.failures - 1))


def _count(connection: Connection, subject: str, now: float) -> None:
    row = {"subject": subject, "failures": 1, "since": now}
    upsert(connection, failures, row, lambda new: {"failures": failures.c.failures + 1})


def _of_user(name: str) -> str:
    return f"user:{hashed(name)}"  # a password that was typed as a name is not kept


def _of_address(address: str) -> str:
    """Addresses of one IPv6 network count together: whoever has one has all."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f"address:{address[:64]}"
    return f"address:{ipaddress.ip_network((found, 64), strict=False) if found.version == 6 else found}"

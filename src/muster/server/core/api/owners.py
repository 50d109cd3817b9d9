"""Whose things a list shows."""

from sqlalchemy import Connection

from muster.server.core.access import Caller, demand
from muster.server.core.accounts import users
from muster.server.core.accounts.users import NO_USER


def owner_of(connection: Connection, caller: Caller, user: str | None, action: str) -> str:
    """Returns the id of the named user, else of the caller; raises Denied where the caller may not see what is that user's."""
    owner = caller.principal.user_id if user is None else users.get(connection, user).id
    demand(caller.principal, action, owner, NO_USER)
    return owner

"""The tables of the server. Only migrations create them; a test compares the two.

Times are seconds since 1970 in UTC. Ids are short random texts that begin with what they name.
"""

import secrets

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

users = Table(
    "users",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("password_hash", String),
    Column("role", String, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("created", Float, nullable=False),
    Column("changed", Float, nullable=False),
    CheckConstraint("role IN ('administrator', 'member')", name="role"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id_hash", String, primary_key=True),
    Column("user", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("seen", Float, nullable=False),
    Column("address", String, nullable=False),
    Column("scope", String, nullable=False, server_default="write"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String, primary_key=True),
    Column("user", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("hash", String, nullable=False, unique=True),
    Column("scope", String, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("used", Float),
    Column("revoked", Float),
    CheckConstraint("scope IN ('read', 'write')", name="scope"),
)

projects = Table(
    "projects",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("created", Float, nullable=False),
    Column("defaults", JSON, nullable=False),
    Column("settings", JSON),  # of the queue: weight, idle devices, retention; null for none
)

members = Table(
    "members",
    metadata,
    Column("project", String, ForeignKey("projects.id"), primary_key=True),
    Column("user", String, ForeignKey("users.id"), primary_key=True, index=True),
    Column("role", String, nullable=False),
    CheckConstraint("role IN ('manager', 'member', 'viewer')", name="role"),
)

access_keys = Table(
    "access_keys",
    metadata,
    Column("id", String, primary_key=True),  # the access key itself
    Column("user", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("secret_encrypted", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),  # with the token that made it
    Column("used", Float),
    Column("revoked", Float),
)

buckets = Table(
    "buckets",
    metadata,
    Column("name", String, primary_key=True),
    Column("owner", String, ForeignKey("users.id"), index=True),
    Column("project", String, ForeignKey("projects.id"), index=True),
    Column("quota", BigInteger),  # bytes
    Column("created", Float, nullable=False),
)

bucket_prefixes = Table(  # keys beneath a prefix are shared with a project, as a whole bucket is by its column `project`
    "bucket_prefixes",
    metadata,
    Column("bucket", String, ForeignKey("buckets.name", ondelete="CASCADE"), primary_key=True),
    Column("project", String, ForeignKey("projects.id"), primary_key=True, index=True),
    Column("prefix", String, nullable=False),  # ends with a slash
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("who", String, nullable=False),  # the name of a user, or of what acted for nobody
    Column("what", String, nullable=False),
    Column("target", String, nullable=False),
    Column("address", String, nullable=False),
    Column("before", JSON),
    Column("after", JSON),
    Index("ix_audit_target", "target"),
    sqlite_autoincrement=True,  # the number of a deleted entry is not given again
)

links = Table(
    "links",
    metadata,
    Column("hash", String, primary_key=True),
    Column("purpose", String, nullable=False),
    Column("user", String, ForeignKey("users.id"), index=True),
    Column("expires", Float, nullable=False),
    Column("used", Float),
)

# Failed logins of a user or an address, in a window that begins with the first of them.
login_failures = Table(
    "login_failures",
    metadata,
    Column("subject", String, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("since", Float, nullable=False, index=True),
)

# The user ids that root's pools give to users who have no account on the machine.
uids = Table(
    "uids",
    metadata,
    Column("user", String, ForeignKey("users.id"), primary_key=True),
    Column("uid", Integer, nullable=False, unique=True),
)

LISTED = ("state", "user", "project", "pool", "name", "id", "removed")  # what filters of lists look at

# An index of runs, and the queue: what happened in a run is in its directory, which wins over this.
runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),  # the order of submission
    Column("id", String, nullable=False, unique=True),
    Column("user", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("project", String, ForeignKey("projects.id"), nullable=False, index=True),
    Column("pool", String, nullable=False),
    Column("account", String, nullable=False),  # the directory of the pool's in which the run lies
    Column("name", String, nullable=False),
    Column("key", String),  # with which the client submits it again after a break
    Column("key_digest", String),  # of what was submitted with it, under a key of the vault: it is over secrets, too
    Column("job", JSON, nullable=False),
    Column("need", JSON, nullable=False),  # what the queue looks at: nodes, devices of a kind, limits, what comes before
    Column("source", Text, nullable=False),  # the job file as written
    Column("code", String, nullable=False),  # the digest
    Column("secrets_encrypted", LargeBinary),  # until its end
    Column("access_key", String),  # of the store, which is the run's own
    Column("stage", String, nullable=False),  # waiting, starting, running, ended
    Column("stop", JSON),  # a request to stop it
    Column("view", JSON),  # how it stood when it was looked at last
    Column("state", String, nullable=False),  # of the view
    Column("created", Float, nullable=False),
    Column("ended", Float),
    Column("removed", Float),  # its record was deleted
    Column("changed", BigInteger, nullable=False, index=True),  # grows with each change of any run
    Column("priority", Integer, nullable=False, server_default="150"),
    Column("preemptible", Boolean, nullable=False, server_default=false()),
    Column("pinned", Boolean, nullable=False, server_default=false()),  # nothing of it is deleted by age or size
    Column("preemptions", Integer, nullable=False, server_default="0"),
    Column("waiting_since", Float),  # when it came into the queue, the last time
    Column("paused", JSON),  # by whom it is left out, and since when
    Column("moved", Float),  # its place before all that were not moved
    Column("origin", String),  # the run that it is a clone of
    Column("placement", JSON),  # the nodes of its pool that it has, and the ids of their devices
    Column("preempt", JSON),  # a request to leave its devices and to go on later
    UniqueConstraint("user", "key", name="uq_runs_user_key"),
    Index("ix_runs_stage", "stage", "number"),
    # Lists of runs: their filters look at columns of these indexes alone, not at rows, which are long.
    Index("ix_runs_by_number", "number", *LISTED),
    Index("ix_runs_by_changed", "changed", "number", *LISTED),
    Index("ix_runs_by_priority", "priority", "number", *LISTED),
    Index("ix_runs_by_name", "name", "number", *[column for column in LISTED if column != "name"]),
    Index("ix_runs_by_user", "user", "number", *[column for column in LISTED if column != "user"]),
    Index("ix_runs_by_project", "project", "number", *[column for column in LISTED if column != "project"]),
    Index("ix_runs_by_state", "state", "number", *[column for column in LISTED if column != "state"]),
    Index("ix_runs_of_user_by_number", "user", "state", "number", "removed"),  # the start page
    Index("ix_runs_of_user_by_changed", "user", "state", "changed", "number", "removed"),
    sqlite_autoincrement=True,
)

# One row: the server that owns the database. A server whose instance is not in it may not write (`lock.py`).
owner = Table(
    "owner",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("instance", String, nullable=False),
    Column("since", Float, nullable=False),
)


def new_id(letter: str) -> str:
    """Returns an id such as `u-3f9c2a7be01d`."""
    return f"{letter}-{secrets.token_hex(6)}"

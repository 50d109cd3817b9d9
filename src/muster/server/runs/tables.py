"""Tables of the queue and of what surrounds it: use of devices, quotas, drained nodes, templates, webhooks."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from muster.server.core.tables import metadata

# Each time that a run held devices of a pool: what shares of use, quotas and `muster usage` are computed from.
allocations = Table(
    "allocations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run", String, nullable=False, index=True),
    Column("user", String, ForeignKey("users.id"), nullable=False),
    Column("project", String, ForeignKey("projects.id"), nullable=False),
    Column("pool", String, nullable=False),
    Column("kind", String, nullable=False),  # of the devices
    Column("devices", Integer, nullable=False),  # on all nodes
    Column("nodes", Integer, nullable=False),
    Column("started", Float, nullable=False),
    Column("ended", Float),  # null while it holds them
    # All that is summed is in the index: a month of a million allocations is read without the table.
    Index("ix_allocations_ended", "ended", "started", "devices", "project", "user", "pool", "kind"),
    sqlite_autoincrement=True,
)

# Devices that runs which cannot be preempted may hold at once: of a project, or of one user in it.
quotas = Table(
    "quotas",
    metadata,
    Column("project", String, ForeignKey("projects.id"), primary_key=True),
    Column("user", String, primary_key=True),  # the id of a user; "" is the whole project
    Column("kind", String, primary_key=True),
    Column("devices", Integer, nullable=False),
    CheckConstraint("devices >= 0", name="devices"),
)

# Pools and nodes that start nothing new.
drains = Table(
    "drains",
    metadata,
    Column("pool", String, primary_key=True),
    Column("node", String, primary_key=True),  # "" is the whole pool
    Column("reason", String, nullable=False),
    Column("who", String, nullable=False),
    Column("since", Float, nullable=False),
)

# Job files that are kept under a name: for their owner, a project, or everybody.
templates = Table(
    "templates",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("owner", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("scope", String, nullable=False),  # own, project, all
    Column("project", String, ForeignKey("projects.id"), index=True),
    Column("job", Text, nullable=False),  # the job file
    Column("code", String, nullable=False),  # the digest; "" for none
    Column("description", String, nullable=False),
    Column("created", Float, nullable=False),
    Column("changed", Float, nullable=False),
    CheckConstraint("scope IN ('own', 'project', 'all')", name="scope"),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String, primary_key=True),
    Column("project", String, ForeignKey("projects.id"), nullable=False, index=True),
    Column("url", String, nullable=False),
    Column("events", JSON, nullable=False),
    Column("secret_encrypted", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
)

# What is still to be sent to webhooks, and what was sent lately.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("webhook", String, ForeignKey("webhooks.id"), nullable=False, index=True),
    Column("event", String, nullable=False),
    Column("run", String, nullable=False),
    Column("body", JSON, nullable=False),
    Column("created", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due", Float),  # when it is tried next; null once it was sent or given up
    Column("sent", Float),
    Column("error", String, nullable=False),
    Index("ix_deliveries_due", "due"),
    sqlite_autoincrement=True,
)

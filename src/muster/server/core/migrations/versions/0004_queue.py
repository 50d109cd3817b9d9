"""The queue: priorities, preemption, quotas, use of devices, drained nodes, templates, webhooks."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

REQUIRED: dict[str, tuple[Any, Any]] = {
    "priority": (sa.Integer, "150"),
    "preemptible": (sa.Boolean, sa.false()),
    "pinned": (sa.Boolean, sa.false()),
    "preemptions": (sa.Integer, "0"),
}
OPTIONAL: dict[str, Any] = {
    "waiting_since": sa.Float,
    "paused": sa.JSON,
    "moved": sa.Float,
    "origin": sa.String,
    "placement": sa.JSON,
    "preempt": sa.JSON,
}


def upgrade() -> None:
    _add_columns()
    _convert_needs()
    _create_queue()
    _create_templates()
    _create_webhooks()


def _add_columns() -> None:
    op.add_column("projects", sa.Column("settings", sa.JSON))
    for name, (kind, default) in REQUIRED.items():
        op.add_column("runs", sa.Column(name, kind, nullable=False, server_default=default))
    for name, kind in OPTIONAL.items():
        op.add_column("runs", sa.Column(name, kind))
    op.execute("UPDATE runs SET waiting_since = created")
    op.create_index("ix_runs_user_number", "runs", ["user", "number"])
    op.create_index("ix_runs_project_number", "runs", ["project", "number"])
    op.create_index("ix_runs_state", "runs", ["state", "number"])


def _convert_needs() -> None:
    """What runs take of their pools was their devices in all; now it is by node, and has all that the queue looks at."""
    runs = sa.table("runs", sa.column("id", sa.String), sa.column("job", sa.JSON), sa.column("need", sa.JSON))
    connection = op.get_bind()
    for run, job in connection.execute(sa.select(runs.c.id, runs.c.job)).all():
        connection.execute(sa.update(runs).where(runs.c.id == run).values(need=_need(job)))


def _need(job: dict[str, Any]) -> dict[str, Any]:
    names = ("nodes", "devices", "cpus", "memory")
    return {"kind": job.get("device") or "cpu", "limit": job.get("time_limit"), **{name: job.get(name) or 0 for name in names}}


def _create_queue() -> None:
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer, autoincrement=True, nullable=False),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("devices", sa.Integer, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("started", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_allocations"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_allocations_user"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_allocations_project"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_allocations_run", "allocations", ["run"])
    summed = ["ended", "started", "devices", "project", "user", "pool", "kind"]
    op.create_index("ix_allocations_ended", "allocations", summed)
    op.create_table(
        "quotas",
        sa.Column("project", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("devices", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("project", "user", "kind", name="pk_quotas"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_quotas_project"),
        sa.CheckConstraint("devices >= 0", name=op.f("ck_quotas_devices")),
    )
    op.create_table(
        "drains",
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("pool", "node", name="pk_drains"),
    )


def _create_templates() -> None:
    op.create_table(
        "templates",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("project", sa.String),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("description", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("changed", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_templates"),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name="fk_templates_owner"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_templates_project"),
        sa.CheckConstraint("scope IN ('own', 'project', 'all')", name=op.f("ck_templates_scope")),
    )
    op.create_index("ix_templates_owner", "templates", ["owner"])
    op.create_index("ix_templates_project", "templates", ["project"])


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("url", sa.String, nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("secret_encrypted", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_webhooks_project"),
    )
    op.create_index("ix_webhooks_project", "webhooks", ["project"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), autoincrement=True, nullable=False),
        sa.Column("webhook", sa.String, nullable=False),
        sa.Column("event", sa.String, nullable=False),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due", sa.Float),
        sa.Column("sent", sa.Float),
        sa.Column("error", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.id"], name="fk_deliveries_webhook"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_webhook", "deliveries", ["webhook"])
    op.create_index("ix_deliveries_due", "deliveries", ["due"])

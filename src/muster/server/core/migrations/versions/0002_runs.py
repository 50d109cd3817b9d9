"""Runs, and user ids for their processes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "uids",
        sa.Column("user", sa.String, nullable=False),
        sa.Column("uid", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("user", name="pk_uids"),
        sa.UniqueConstraint("uid", name="uq_uids_uid"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_uids_user"),
    )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, autoincrement=True, nullable=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("account", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("key", sa.String),
        sa.Column("key_digest", sa.String),
        sa.Column("job", sa.JSON, nullable=False),
        sa.Column("need", sa.JSON, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("secrets_encrypted", sa.LargeBinary),
        sa.Column("access_key", sa.String),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column("stop", sa.JSON),
        sa.Column("view", sa.JSON),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.Column("removed", sa.Float),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_runs"),
        sa.UniqueConstraint("id", name="uq_runs_id"),
        sa.UniqueConstraint("user", "key", name="uq_runs_user_key"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_runs_user"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_runs_project"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_user", "runs", ["user"])
    op.create_index("ix_runs_project", "runs", ["project"])
    op.create_index("ix_runs_changed", "runs", ["changed"])
    op.create_index("ix_runs_stage", "runs", ["stage", "number"])

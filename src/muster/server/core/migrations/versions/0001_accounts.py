"""Accounts, projects, access keys, buckets, the audit log and the owner of the database."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("password_hash", sa.String),
        sa.Column("role", sa.String, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("changed", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sa.CheckConstraint("role IN ('administrator', 'member')", name="ck_users_role"),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("defaults", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
    )
    op.create_table(
        "sessions",
        sa.Column("id_hash", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name="pk_sessions"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_sessions_user"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("hash", sa.String, nullable=False),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("used", sa.Float),
        sa.Column("revoked", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_tokens_user"),
        sa.CheckConstraint("scope IN ('read', 'write')", name="ck_tokens_scope"),
    )
    op.create_table(
        "members",
        sa.Column("project", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("role", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("project", "user", name="pk_members"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_members_project"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_members_user"),
        sa.CheckConstraint("role IN ('manager', 'member', 'viewer')", name="ck_members_role"),
    )
    op.create_table(
        "access_keys",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("secret_encrypted", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("used", sa.Float),
        sa.Column("revoked", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_access_keys"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_access_keys_user"),
    )
    op.create_table(
        "buckets",
        sa.Column("name", sa.String, nullable=False),
        sa.Column("owner", sa.String),
        sa.Column("project", sa.String),
        sa.Column("quota", sa.BigInteger),
        sa.Column("created", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_buckets"),
        sa.ForeignKeyConstraint(["owner"], ["users.id"], name="fk_buckets_owner"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_buckets_project"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("what", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "links",
        sa.Column("hash", sa.String, nullable=False),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("user", sa.String),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("used", sa.Float),
        sa.PrimaryKeyConstraint("hash", name="pk_links"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_links_user"),
    )
    op.create_table(
        "login_failures",
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_login_failures"),
    )
    op.create_table(
        "owner",
        sa.Column("one", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("instance", sa.String, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("one", name="pk_owner"),
    )
    for table, column in (
        ("sessions", "user"),
        ("tokens", "user"),
        ("members", "user"),
        ("access_keys", "user"),
        ("buckets", "owner"),
        ("buckets", "project"),
        ("links", "user"),
        ("audit", "target"),
        ("login_failures", "since"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])

"""The results section: test plans, uploads, results, refused bundles; sessions that may only read."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("scope", sa.String, nullable=False, server_default="write"))
    op.create_table(
        "test_plans",
        sa.Column("test_id", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("division", sa.String, nullable=False),
        sa.Column("scenario", sa.String, nullable=False),
        sa.Column("object_type", sa.String, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("test_id", name="pk_test_plans"),
    )
    op.create_table(
        "result_uploads",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("test_id", sa.String),
        sa.Column("touched", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_result_uploads"),
        sa.UniqueConstraint("user", "sha256", name="uq_result_uploads_user"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_result_uploads_user"),
    )
    op.create_table(
        "results",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("bench", sa.String, nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("received", sa.Float, nullable=False),
        sa.Column("test_id", sa.String),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("division", sa.String, nullable=False),
        sa.Column("scenario", sa.String, nullable=False),
        sa.Column("object_type", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created", sa.Float),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("better", sa.String, nullable=False),
        sa.Column("accuracy", sa.Float),
        sa.Column("nodes", sa.BigInteger),
        sa.Column("devices", sa.BigInteger),
        sa.Column("hardware", sa.String, nullable=False),
        sa.Column("samples_per_joule", sa.Float),
        sa.Column("signature", sa.String, nullable=False),
        sa.Column("signed_by", sa.String),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("system", sa.Text),
        sa.UniqueConstraint("bench", name="uq_results_bench"),
        sa.UniqueConstraint("sha256", name="uq_results_sha256"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_results_user"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "result_runs",
        sa.Column("run", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("run", name="pk_result_runs"),
        sa.ForeignKeyConstraint(["number"], ["results.number"], name="fk_result_runs_number"),
    )
    op.create_table(
        "result_refusals",
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("user", sa.String, nullable=False),
        sa.Column("bench", sa.String),
        sa.Column("test_id", sa.String),
        sa.Column("received", sa.Float, nullable=False),
        sa.Column("problems", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sha256", "user", name="pk_result_refusals"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_result_refusals_user"),
    )
    for table, column in (
        ("results", "user"),
        ("results", "received"),
        ("results", "model"),
        ("result_runs", "number"),
        ("result_refusals", "received"),
    ):
        op.create_index(f"ix_{table}_{column}", table, [column])

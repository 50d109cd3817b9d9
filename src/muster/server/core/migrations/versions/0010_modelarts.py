"""Jobs that came over ModelArts' API."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "modelarts_jobs",
        sa.Column("number", sa.Integer, autoincrement=True, nullable=False),
        sa.Column("id", sa.String, nullable=False),
        sa.Column("run", sa.String, nullable=False),
        sa.Column("project", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("description", sa.String, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("job", sa.Integer),
        sa.Column("version", sa.Integer),
        sa.Column("deleted", sa.Float),
        sa.PrimaryKeyConstraint("number", name="pk_modelarts_jobs"),
        sa.UniqueConstraint("id", name="uq_modelarts_jobs_id"),
        sa.UniqueConstraint("run", name="uq_modelarts_jobs_run"),
        sa.ForeignKeyConstraint(["project"], ["projects.id"], name="fk_modelarts_jobs_project"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_modelarts_jobs_project", "modelarts_jobs", ["project", "name"])
    op.create_index("ix_modelarts_jobs_job", "modelarts_jobs", ["job", "version"])

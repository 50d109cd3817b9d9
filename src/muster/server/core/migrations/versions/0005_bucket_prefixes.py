"""Prefixes of buckets that projects share."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    bucket = sa.ForeignKey("buckets.name", name="fk_bucket_prefixes_bucket", ondelete="CASCADE")
    project = sa.ForeignKey("projects.id", name="fk_bucket_prefixes_project")
    op.create_table(
        "bucket_prefixes",
        sa.Column("bucket", sa.String, bucket, nullable=False),
        sa.Column("project", sa.String, project, nullable=False),
        sa.Column("prefix", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("bucket", "project", name="pk_bucket_prefixes"),
    )
    op.create_index("ix_bucket_prefixes_project", "bucket_prefixes", ["project"])

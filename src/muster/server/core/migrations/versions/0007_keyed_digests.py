"""Digests of submissions without a key are deleted: secrets could be tried out with them. Access keys may expire."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("access_keys", sa.Column("expires", sa.Float))
    op.execute("UPDATE runs SET key_digest = NULL")

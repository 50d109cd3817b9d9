"""An index by which lists of runs are sorted by priority."""

from alembic import op

revision = "0009"
down_revision = "0008"

COLUMNS = ("priority", "number", "state", "user", "project", "pool", "name", "id", "removed")


def upgrade() -> None:
    op.create_index("ix_runs_by_priority", "runs", list(COLUMNS))

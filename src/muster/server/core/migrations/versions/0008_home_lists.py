"""Indexes of a user's runs in a state, in the orders in which the start page shows them."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_index("ix_runs_of_user_by_number", "runs", ["user", "state", "number", "removed"])
    op.create_index("ix_runs_of_user_by_changed", "runs", ["user", "state", "changed", "number", "removed"])

"""Indexes that hold all that lists of runs look at."""

from alembic import op

revision = "0006"
down_revision = "0005"

LISTED = ("state", "user", "project", "pool", "name", "id", "removed")
ORDERS = {
    "number": ["number"],
    "changed": ["changed", "number"],
    "name": ["name", "number"],
    "user": ["user", "number"],
    "project": ["project", "number"],
    "state": ["state", "number"],
}


def upgrade() -> None:
    for name in ("ix_runs_user_number", "ix_runs_project_number", "ix_runs_state"):
        op.drop_index(name, "runs")
    for name, order in ORDERS.items():
        op.create_index(f"ix_runs_by_{name}", "runs", [*order, *(column for column in LISTED if column not in order)])

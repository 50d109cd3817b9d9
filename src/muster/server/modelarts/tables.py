"""The table of jobs that came over ModelArts' API: what the API shows of them and runs do not have."""

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, String, Table

from muster.server.core.tables import metadata

jobs = Table(
    "modelarts_jobs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),  # the order of creation, and ids of the older API
    Column("id", String, nullable=False, unique=True),  # a UUID, which names of logs have
    Column("run", String, nullable=False, unique=True),
    Column("project", String, ForeignKey("projects.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("description", String, nullable=False),
    Column("body", JSON, nullable=False),  # as it came, with what Muster has no use for
    Column("created", Float, nullable=False),
    Column("job", Integer),  # of the older API: the number of the first version
    Column("version", Integer),  # of the older API, from 1
    Column("deleted", Float),  # its run may go on in the table of runs until it has stopped
    Index("ix_modelarts_jobs_project", "project", "name"),
    Index("ix_modelarts_jobs_job", "job", "version"),
    sqlite_autoincrement=True,
)

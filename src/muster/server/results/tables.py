"""The tables of the results section, in the server's database: test plans, uploads, results, refused bundles.

Results, uploads and refusals belong to users; names of users are unique and never change.
"""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, String, Table, Text, UniqueConstraint

from muster.server.core.tables import metadata

plans = Table(
    "test_plans",
    metadata,
    Column("test_id", String, primary_key=True),
    Column("model", String, nullable=False),
    Column("mode", String, nullable=False),
    Column("division", String, nullable=False),
    Column("scenario", String, nullable=False),
    Column("object_type", String, nullable=False),
    Column("created", Float, nullable=False),
)

uploads = Table(
    "result_uploads",
    metadata,
    Column("id", String, primary_key=True),
    Column("user", String, ForeignKey("users.id"), nullable=False),
    Column("sha256", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("test_id", String),
    Column("touched", Float, nullable=False),
    UniqueConstraint("user", "sha256"),
)

results = Table(
    "results",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("bench", String, nullable=False, unique=True),
    Column("sha256", String, nullable=False, unique=True),
    Column("size", BigInteger, nullable=False),
    Column("user", String, ForeignKey("users.id"), nullable=False, index=True),
    Column("received", Float, nullable=False, index=True),
    Column("test_id", String),
    Column("model", String, nullable=False, index=True),
    Column("mode", String, nullable=False),
    Column("division", String, nullable=False),
    Column("scenario", String, nullable=False),
    Column("object_type", String, nullable=False),
    Column("name", String, nullable=False),
    Column("created", Float),
    Column("passed", Boolean, nullable=False),
    Column("metric", String, nullable=False),
    Column("value", Float),
    Column("unit", String, nullable=False),
    Column("better", String, nullable=False),
    Column("accuracy", Float),
    Column("nodes", BigInteger),
    Column("devices", BigInteger),
    Column("hardware", String, nullable=False),
    Column("samples_per_joule", Float),
    Column("signature", String, nullable=False),
    Column("signed_by", String),
    Column("result", Text, nullable=False),  # the whole result.json, as it was computed
    Column("system", Text),  # the submitter's description of the system, as JSON
    sqlite_autoincrement=True,  # the number of a deleted result is not given again
)

# Each run with the result that it came with: a run counts once.
result_runs = Table(
    "result_runs",
    metadata,
    Column("run", String, primary_key=True),
    Column("number", Integer, ForeignKey("results.number"), nullable=False, index=True),
)

refusals = Table(
    "result_refusals",
    metadata,
    Column("sha256", String, primary_key=True),
    Column("user", String, ForeignKey("users.id"), primary_key=True),
    Column("bench", String),
    Column("test_id", String),
    Column("received", Float, nullable=False, index=True),
    Column("problems", Text, nullable=False),  # a JSON list
)

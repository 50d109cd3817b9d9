"""All tables of the server: those of its core and of its sections, which declare their own. Imported where all are needed."""

from muster.server.core.tables import metadata
from muster.server.modelarts import tables as modelarts_tables
from muster.server.results import tables as results_tables
from muster.server.runs import tables as queue_tables

__all__ = ["metadata", "modelarts_tables", "queue_tables", "results_tables"]

"""All tables of the server: those of its core and of its sections, which declare their own. Imported where all are needed."""

from muster.server.core.tables import metadata
from muster.server.results import tables as results_tables

__all__ = ["metadata", "results_tables"]

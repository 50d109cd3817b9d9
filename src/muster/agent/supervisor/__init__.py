"""The supervisor of a run and what it needs of an engine."""

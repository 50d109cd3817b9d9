"""The node side of the local engine: agents forked from the supervisor, each on a simulated machine."""

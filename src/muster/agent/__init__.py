"""Programs of a run: its supervisor, one agent per node, and the processes that agents start."""

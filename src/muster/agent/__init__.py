"""What runs on the nodes: the supervisor of a run, one agent per node, and the ranks that the agents start."""

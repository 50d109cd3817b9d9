"""What runs on a host: the relay and the daemon of a node, its agent, commands beside ranks, and the survey."""

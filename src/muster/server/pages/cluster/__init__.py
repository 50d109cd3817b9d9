"""Pages about the machines: pools, the queue, and who used how much."""

"""Templates: job files that are kept under a name."""

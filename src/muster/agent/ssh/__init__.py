"""ssh logins between the nodes of a run."""

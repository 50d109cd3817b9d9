"""The side of the supervisor: the service's clients, its jobs, and what comes back from them."""

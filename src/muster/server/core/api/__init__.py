"""The HTTP API of accounts, under /api/v1: one module for each kind of thing."""

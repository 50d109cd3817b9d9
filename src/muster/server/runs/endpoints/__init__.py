"""Endpoints of runs for browsers: origins of their own, tickets, and the proxy."""

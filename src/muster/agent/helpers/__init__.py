"""Helper processes of a node that are given keys."""

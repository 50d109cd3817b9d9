"""Nodes of pools: what they have, who uses it, whether they pass their checks, and which are drained."""

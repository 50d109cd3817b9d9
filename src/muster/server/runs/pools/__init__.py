"""Pools: on which engines jobs run, as which accounts, and what they may name there."""

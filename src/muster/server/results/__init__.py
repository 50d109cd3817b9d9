"""Collected results: plans, uploads, verification, ranking."""

"""Bundles: a benchmark with its records in one file that anybody can verify."""

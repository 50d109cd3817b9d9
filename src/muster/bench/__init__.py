"""Benchmarks: results that can be computed again from the records, energy, bundles, reports."""

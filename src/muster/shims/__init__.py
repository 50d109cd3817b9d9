"""Packages that a job may import, for the Python of the job, where Muster is not installed."""

"""Retention: what is deleted of old runs, by age and size, as their project says."""

"""The Slurm engine: one batch job per run, whose first node runs the supervisor."""

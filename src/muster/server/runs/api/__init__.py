"""Routes of runs and of their code."""

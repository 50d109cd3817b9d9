"""The Slurm engine: one batch job per run, whose first node runs the supervisor."""

from muster.engines.slurm.engine import Slurm

__all__ = ["Slurm"]

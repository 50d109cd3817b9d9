"""The node side of the Slurm engine: the supervisor's site, the entry of agents, MPI started by srun."""

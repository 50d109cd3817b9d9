"""The parts of a private Slurm site: its configuration, its ports, its machines."""

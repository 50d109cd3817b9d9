"""The ssh engine: servers with Python and sshd, and nothing else."""

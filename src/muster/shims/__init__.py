"""What a job may import: packages for the Python of the job, which knows nothing of Muster."""

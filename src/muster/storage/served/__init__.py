"""Directories of this machine served over S3, for nodes of a run that reach them through its own connection alone."""

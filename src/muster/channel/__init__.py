"""The channel between a supervisor and the nodes of its run: an interface, and a directory that all of them see."""

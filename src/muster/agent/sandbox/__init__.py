"""Isolation of a node: namespaces, root file system, memory limit."""

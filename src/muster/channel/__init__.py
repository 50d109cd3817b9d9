"""The channel between a supervisor and its nodes: publish, announce, gather."""

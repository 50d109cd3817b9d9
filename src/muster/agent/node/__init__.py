"""The agent of one node: prepares it, starts its processes, watches them and collects their results."""

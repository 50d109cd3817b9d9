"""The local engine: simulated nodes on this machine."""

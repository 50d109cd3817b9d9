"""The scheduler, a pure function: pools, running and waiting runs in, decisions with reasons out."""

"""Muster's agent inside a job of ModelArts: a process on each worker, of which the first runs the supervisor."""

"""The engine of ModelArts: a run is a training job of the service for each attempt, followed by a process of this machine."""

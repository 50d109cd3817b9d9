"""The engine of ModelArts: a run is one training job of the service for each attempt, which a process of this machine follows."""

"""What a node serves beside its ranks: endpoints of a job, and how long they were idle."""

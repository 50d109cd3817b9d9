"""From the queue to the end: starting runs, looking after them, and taking them up after a restart."""

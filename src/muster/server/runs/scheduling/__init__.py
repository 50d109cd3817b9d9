"""From the queue to running: what starts when, and how runs are looked after."""

"""The queue: runs that wait and those that hold devices, as the scheduler sees them; quotas, and who used what."""

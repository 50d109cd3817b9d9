"""Webhooks: what happens to the runs of a project is sent to addresses that its managers name."""

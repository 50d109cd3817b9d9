"""Routes of the queue and of what surrounds it: pools, quotas, use, templates, webhooks, retention."""

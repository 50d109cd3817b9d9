"""Under every application: sockets, limits of requests, slow clients, logs and numbers."""

"""The client of a tester, the server that collects results: the protocol's records, sending bundles, and the outbox."""

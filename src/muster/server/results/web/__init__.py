"""Requests for plans, uploads and results: the protocol, who asks, and the application of the tester alone."""

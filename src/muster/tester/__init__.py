"""The tester: a server that holds test plans, takes in results, verifies and ranks them; and the client that sends them.

The server needs the extra `[server]` (FastAPI, uvicorn). The client and the outbox do not.
"""

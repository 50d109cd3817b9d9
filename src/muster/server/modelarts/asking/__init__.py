"""Requests: who signed them, what their bodies hold, and how they are refused."""

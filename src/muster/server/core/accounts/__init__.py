"""Accounts: users, passwords, sessions, tokens, access keys, one-time links and projects."""

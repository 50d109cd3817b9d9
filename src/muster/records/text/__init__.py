"""Texts about records: failures, and sizes and times in words."""

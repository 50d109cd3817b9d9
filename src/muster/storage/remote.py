"""Buckets of an S3 store."""

from __future__ import annotations


class Remote:
    ahead = 0.0

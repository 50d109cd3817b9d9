"""Random secrets that are shown once; the database holds only their hashes."""

import hashlib
import secrets

TOKEN = "mst_"  # what personal tokens begin with, so that scanners of leaked secrets find them


def new_secret(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """Secrets have 256 random bits, so that a plain hash cannot be reversed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()

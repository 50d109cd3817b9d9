"""Passwords: what is accepted as one, argon2 hashes, and a bound on how many are computed at once."""

import threading

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from muster.tester.errors import Denied

MIN_LENGTH, MAX_LENGTH = 10, 256
AT_ONCE = 2  # each takes 64 MiB of memory and a processor
_hasher = PasswordHasher()
_computing = threading.BoundedSemaphore(AT_ONCE)
# Verified where a user has no password or does not exist, so that the time says nothing.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def check(password: str, name: str) -> None:
    """Raises Denied for a password that is too short, too long or the name of its user."""
    if len(password) < MIN_LENGTH:
        raise Denied(400, f"the password is too short; use at least {MIN_LENGTH} characters")
    if len(password) > MAX_LENGTH:
        raise Denied(400, f"the password is too long; use at most {MAX_LENGTH} characters")
    if password.casefold() == name.casefold() or len(set(password)) < 4:
        raise Denied(400, "the password is too easy to guess; choose another")


def hashed(password: str) -> str:
    with _computing:
        return _hasher.hash(password)


def matches(password_hash: str | None, password: str) -> bool:
    """True if a password is the right one; takes the same time where there is none."""
    with _computing:
        try:
            right = _hasher.verify(password_hash or _NOBODY, password[: MAX_LENGTH + 1])
        except (VerificationError, InvalidHashError):
            return False
    return right and password_hash is not None

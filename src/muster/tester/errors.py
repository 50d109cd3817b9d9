"""What can go wrong between those who measure and the tester; each text says what to do."""

from __future__ import annotations


class TesterError(Exception):
    """Something about the tester went wrong."""


class Misused(TesterError):
    """What the user said cannot be meant: an address, a name, a token, a file."""


class Unreachable(TesterError):
    """The tester did not answer, or not as a tester does."""


class Denied(TesterError):
    """A request that the server does not grant, with the HTTP status that says so."""

    def __init__(self, status: int, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.status = status
        self.details = details

"""Errors of the tester's client and server; each text says what to do."""


class TesterError(Exception):
    """Any error between client and tester."""


class Misused(TesterError):
    """Invalid input of the user: an address, a name, a token or a file."""


class Unreachable(TesterError):
    """The tester did not answer, or something else answered."""


class Denied(TesterError):
    """A request that the server rejects, with the HTTP status of the response."""

    def __init__(self, status: int, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.status = status
        self.details = details

"""MoXing's exceptions. They are errors of the operating system too, so that code written for local files catches them."""

import errno
from typing import NamedTuple, Optional


class Response(NamedTuple):
    """The store's response, for programs that print `error.resp`."""

    status: Optional[int]
    reason: str

    def __repr__(self) -> str:
        return f"status {self.status}: {self.reason}"


class _MoxFileBaseRespException(OSError):
    status: Optional[int] = None
    number = errno.EIO

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.errno = self.number
        self.resp = Response(self.status if status is None else status, text)


class MoxFileRespException(_MoxFileBaseRespException):
    """The store refused, or could not be reached."""


class MoxFileReadException(_MoxFileBaseRespException):
    """A file could not be read to its end."""

    status = 200


class MoxFileNotExistsException(MoxFileRespException, FileNotFoundError):
    """There is nothing at that path."""

    status = 404
    number = errno.ENOENT


class MoxFileNameDuplicateException(MoxFileRespException, FileExistsError):
    """A file stands where a directory is needed, or the other way round."""

    status = 409
    number = errno.EEXIST

"""`moxing.file`: files and directories in a store and on the disk, by the same functions."""

from . import file_io
from .errors import (
    MoxFileNameDuplicateException,
    MoxFileNotExistsException,
    MoxFileReadException,
    MoxFileRespException,
)
from .file_io import *  # noqa: F403
from .shifting import shift

__all__ = [
    "MoxFileNameDuplicateException",
    "MoxFileNotExistsException",
    "MoxFileReadException",
    "MoxFileRespException",
    "file_io",
    "shift",
]
__all__ += file_io.__all__

"""Working copies of the code: ranks may write there, the snapshot stays as it was recorded."""

from __future__ import annotations

import os
import stat


def copy_tree(source: str, target: str) -> None:
    """Copies a snapshot; file systems that can share blocks until they are written do."""
    os.makedirs(target, exist_ok=True)
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_dir():
            copy_tree(entry.path, path)
        else:
            _copy_file(entry.path, path)


def _copy_file(source: str, target: str) -> None:
    reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        info = os.fstat(reader)
        mode = stat.S_IMODE(info.st_mode) | stat.S_IWUSR
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            _copy_bytes(reader, writer, info.st_size)
            os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_bytes(reader: int, writer: int, left: int) -> None:
    while left > 0:
        try:
            copied = os.copy_file_range(reader, writer, left)
        except (OSError, AttributeError):  # between file systems that cannot, or in a Python that does not know it
            copied = os.sendfile(writer, reader, None, left)
        if copied == 0:
            return
        left -= copied

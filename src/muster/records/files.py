"""Files that others wait for: written to a temporary name and renamed, so that no reader sees half of one."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Callable

from muster.records.untrusted import LARGEST, MOST_LINES, NotRegular, TooLarge, parse_json, read_lines, read_regular

LOCK_PAUSE = 0.02  # seconds between two tries at a lock
_FOR_GROUP = stat.S_ISVTX | stat.S_ISGID
TRIES = 3  # at opening a log, where something else appears in its place


def temporary_name(path: str) -> str:
    """A name beside `path` that no other thread, process or namespace (where ids repeat) writes to."""
    return f"{path}.{os.urandom(6).hex()}.tmp"


def write_text(path: str, text: str, mode: int = 0o600) -> None:
    """Writes text in UTF-8; bytes of paths that are not UTF-8 stay as they are."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"), mode)


def write_bytes(path: str, data: bytes, mode: int = 0o600) -> None:
    temporary = temporary_name(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # also where others may make links
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            _give_to_owner(file.fileno(), os.path.dirname(path), mode)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)  # half of a file is of no use
        raise


def _give_to_owner(descriptor: int, folder: str, mode: int) -> None:
    """Gives a file that root writes to the owner of its directory: an administrator may stop a run, and its owner reads why.

    In a directory of root's that is sticky and set-group-ID its group may read it: the account that a run was started as.
    """
    owner = os.stat(folder or ".")
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    elif os.geteuid() == 0 and owner.st_mode & _FOR_GROUP == _FOR_GROUP:
        os.fchmod(descriptor, mode | stat.S_IRGRP)


def write_json(path: str, data: Any) -> None:
    text = _encoded(json.dumps(data, ensure_ascii=False, indent=1)) + b"\n"
    try:
        write_bytes(path, text)
    except IsADirectoryError:  # that a rank has made in the place of a record
        os.rename(path, temporary_name(path))
        write_bytes(path, text)


def _encoded(text: str) -> bytes:
    """JSON as bytes; a lone surrogate, as it stands for a byte of a path that is not UTF-8, becomes an escape."""
    return text.encode("utf-8", "backslashreplace")


def write_once(path: str, data: Any, valid: Callable[[dict[str, Any]], bool] = lambda data: True) -> bool:
    """Writes a file that must not exist yet; false when another process was first.

    A file that no writer of Muster's can have made counts as nothing and is moved aside: a rank must not be able to keep a
    run from being stopped, or its end from being written down.
    """
    temporary = temporary_name(path)
    write_json(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        if not _is_debris(path, valid):
            return False
        os.rename(path, temporary_name(path))
        os.rename(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    return True


def _is_debris(path: str, valid: Callable[[dict[str, Any]], bool]) -> bool:
    """True if something stands there that is certainly not what Muster writes; a disk that fails proves nothing."""
    try:
        data = parse_json(read_regular(path, LARGEST))
    except (NotRegular, TooLarge, ValueError):
        return True
    except OSError:
        return False
    return not (isinstance(data, dict) and valid(data))


def read_json(path: str, most: int = LARGEST) -> Any | None:
    """The data of a file; None while there is none, and for one that is damaged or that no writer of Muster's can have made."""
    with suppress(OSError, ValueError):  # missing, cut off by a full disk or a crash, or something that a rank put there
        return parse_json(read_regular(path, most))
    return None


def read_mapping(path: str, most: int = LARGEST) -> dict[str, Any] | None:
    """The same of a file that holds an object; None where it does not."""
    data = read_json(path, most)
    return data if isinstance(data, dict) else None


def read_object(path: str) -> dict[str, Any]:
    """The same; empty where the file holds no object."""
    return read_mapping(path) or {}


def is_there(path: str) -> bool:
    """True if a file exists, also one that another machine has just written: NFS asks its server when a directory is opened."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.basename(path) in os.listdir(os.path.dirname(path))
    return False


def need_json(path: str) -> Any:
    """The data of a file without which nothing makes sense."""
    data = read_json(path)
    if data is None:
        raise ValueError(f"{path} is missing or damaged")
    return data


def read_objects(path: str, below: str = "", most: int = MOST_LINES) -> Iterator[dict[str, Any]]:
    """The objects in the complete lines of a file; other lines are passed over. Raises OSError, but not for no file."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for line in read_lines(path, below, most):
            with suppress(ValueError):
                data = parse_json(line)
                if isinstance(data, dict):
                    yield data


def read_events(path: str) -> list[dict[str, Any]]:
    """The events of a file; none while there is none."""
    return [event for event in read_objects(path) if isinstance(event.get("event"), str)]


def delete_tree(path: str) -> None:
    """Deletes a directory, also one in which a rank has nested thousands of others, or left some that cannot be written.

    Own code: `shutil.rmtree` holds a descriptor and a stack frame for each level. Here inner directories move up into the
    outermost one, so that neither grows with the depth.
    """
    try:
        top = _open_folder(path)
    except FileNotFoundError:
        return  # another process was faster
    except NotADirectoryError:  # a link, of which the target is none of our business
        os.unlink(path)
        return
    try:
        waiting = _empty(top, top)
        while waiting:
            name = waiting.pop()
            folder = _open_folder(name, top)
            try:
                waiting += _empty(folder, top)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def move_folder(name: str, above: int, target: str) -> None:
    """Renames an entry of an open directory; one that is a directory is made writable, because that changes its `..`."""
    with suppress(NotADirectoryError):
        os.close(_open_folder(name, above))
    os.rename(name, target, src_dir_fd=above)


def _open_folder(name: str, above: int | None = None) -> int:
    """Opens a directory, never through a link, and makes it readable and writable for its owner."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open(name, flags | os.O_PATH, dir_fd=above)
    try:
        with suppress(PermissionError):  # of another user
            os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", os.O_RDONLY | flags, dir_fd=place)
    finally:
        os.close(place)


def _empty(folder: int, top: int) -> list[str]:
    """Deletes the files of a directory and moves its directories into `top`; returns their names there."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    inner = []
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
        elif folder == top:
            inner.append(name)
        else:
            inner.append(temporary_name(""))
            os.close(_open_folder(name, folder))  # moving a directory changes its `..`
            os.rename(name, inner[-1], src_dir_fd=folder, dst_dir_fd=top)
    return inner


def files_below(path: str) -> Iterator[str]:
    """The paths of everything in a directory but directories, at any depth; links are not followed.

    Own code: `os.walk` is recursive before Python 3.12, and ranks nest directories as they like.
    """
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue  # it is gone, cannot be listed, or its path is too long
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry.path


def file_size(path: str) -> int:
    """The bytes of a file; 0 for one that is gone, such as because a rank has deleted it."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds the lock of a directory, which the system gives back for the dead."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def open_log(path: str) -> int:
    """Opens a log for appending."""
    return _open_own(path, os.O_APPEND)


@contextmanager
def locked_file(path: str, limit: float) -> Iterator[bool]:
    """Holds the lock of a file, which the system gives back for the dead; false after `limit` seconds of waiting for it.

    Where the file cannot be made, on a full disk, nothing is locked.
    """
    try:
        lock = open_log(path)
    except OSError:
        yield True
        return
    deadline = time.monotonic() + limit
    try:
        while not (taken := try_lock(lock)) and time.monotonic() < deadline:
            time.sleep(LOCK_PAUSE)
        yield taken
    finally:
        os.close(lock)


def try_lock(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    """Locks an open file or directory; returns False if another process has locked it."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_anew(path: str) -> int:
    """Opens a file for writing from its start."""
    return _open_own(path, os.O_TRUNC)


def _open_own(path: str, how: int) -> int:
    """Opens a regular file for writing; anything else in its place, such as a FIFO without a reader, is moved aside."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | how
    for _ in range(TRIES):
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a FIFO without a reader, a directory
                raise
        else:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.set_blocking(descriptor, True)
                return descriptor
            os.close(descriptor)
        os.rename(path, temporary_name(path))
    raise NotRegular(errno.EINVAL, "it is not a regular file", path)


class Events:
    """An event file, open for its one writer."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, event: str, **details: Any) -> None:
        line = json.dumps(dict({"time": round(time.time(), 3), "event": event}, **details), ensure_ascii=False)
        os.write(self._descriptor, _encoded(line) + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)

"""Files that others wait for: written to a temporary name and renamed, so that nobody reads half of one."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional


def temporary_name(path: str) -> str:
    """A name beside `path` that no other thread, process or namespace (where ids repeat) writes to."""
    return "%s.%s.tmp" % (path, os.urandom(6).hex())


def write_text(path: str, text: str) -> None:
    temporary = temporary_name(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            _give_to_owner(file.fileno(), os.path.dirname(path))
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)  # half of a file serves nobody
        raise


def _give_to_owner(descriptor: int, folder: str) -> None:
    """What root writes into the directory of somebody else is his: an administrator may stop a run, and its owner reads why."""
    owner = os.stat(folder or ".")
    if os.geteuid() == 0 and owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def write_json(path: str, data: Any) -> None:
    write_text(path, json.dumps(data, ensure_ascii=False, indent=1) + "\n")


def write_once(path: str, data: Any) -> bool:
    """Writes a file that must not exist yet; false when somebody else was first."""
    temporary = temporary_name(path)
    write_json(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def read_json(path: str) -> Optional[Any]:
    """The data of a file, or None while there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:  # cut off by a full disk or a crash
        return None


def is_there(path: str) -> bool:
    """Whether a file exists, also one that another machine has just written: NFS asks its server when a directory is opened."""
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def need_json(path: str) -> Any:
    """The data of a file without which nothing makes sense."""
    data = read_json(path)
    if data is None:
        raise ValueError("%s is missing or damaged" % path)
    return data


def read_events(path: str) -> List[Dict[str, Any]]:
    """The complete lines of an event file."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")[:-1]
    except (FileNotFoundError, NotADirectoryError):
        return []
    events = []
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def delete_tree(path: str) -> None:
    """Deletes a directory, also one in which a rank has left others that cannot be written."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return  # somebody else was faster
    except PermissionError:
        for folder, names, _ in os.walk(path):
            for inner in (os.path.join(folder, name) for name in names):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
        shutil.rmtree(path)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds the lock of a directory, which the system gives back for the dead."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


class Events:
    """An event file, open for its one writer."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, event: str, **details: Any) -> None:
        line = json.dumps(dict({"time": round(time.time(), 3), "event": event}, **details), ensure_ascii=False)
        os.write(self._descriptor, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)

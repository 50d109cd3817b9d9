"""Notes beside the runs, for a database that is restored later and has forgotten: lines, each on the disk before it counts."""

import os


def append(path: str, line: str) -> None:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, f"\n{line}\n".encode())  # a line that a crash cut before does not touch it
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lines(path: str) -> list[str]:
    """The lines of a file of notes, the oldest first; none where there is no file."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().split("\n")
    except FileNotFoundError:
        return []

"""Whether logind of this host kills what a session has started when that ends: the daemon of a run, after a lost connection.

`loginctl enable-linger` does not help: it keeps the user's own services, not what was started in a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

PLACES = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd")  # the first has a file
YES = ("1", "yes", "y", "true", "t", "on")
MOST = 1 << 16  # bytes of a file


def kills(user: str, environment: Mapping[str, str], root: str = "/") -> str:
    """The file because of which logind kills the processes of the user's session; empty where it does not."""
    if not environment.get("XDG_SESSION_ID"):  # sshd has not told logind of this session
        return ""
    killing, only, excluded = "", list[str](), ["root"]
    for path, name, value in _settings(root):
        if name == "KillUserProcesses":
            killing = path if value.lower() in YES else ""
        elif name == "KillOnlyUsers":
            only = [*only, *value.split()] if value else []
        elif name == "KillExcludeUsers":
            excluded = [*excluded, *value.split()] if value else []
    return killing if user not in excluded and (not only or user in only) else ""


def _settings(root: str) -> Iterator[tuple[str, str, str]]:
    """The settings of logind with their files, in the order in which they count."""
    for path in _files(root):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read(MOST).splitlines()
        except OSError:
            continue
        for line in lines:
            name, equals, value = line.partition("=")
            if equals and not line.lstrip().startswith(("#", ";")):
                yield path, name.strip(), value.strip()


def _files(root: str) -> list[str]:
    """The file of logind, and the pieces beside it by their names; one in an earlier place hides those of the same name."""
    pieces: dict[str, str] = {}
    for place in reversed(PLACES):
        folder = f"{root}{place}/logind.conf.d"
        if os.path.isdir(folder):
            pieces.update({name: f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".conf")})
    own = [path for place in PLACES if os.path.isfile(path := f"{root}{place}/logind.conf")]
    return [*own[:1], *(pieces[name] for name in sorted(pieces))]

"""Logins at servers, one file each under MUSTER_HOME/servers, which only its owner can read: it holds a token."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.records.files import read_json
from muster.tester.errors import Misused
from muster.tester.protocol import ALLOWED, NAME

DEFAULT = "default"


@dataclass(frozen=True)
class Profile:
    """A login at a server."""

    name: str
    url: str
    user: str
    token: str
    token_id: str | None = None  # None where the user brought the token: it is not revoked by a logout
    ca: str | None = None  # the file of the authority of the server's certificate
    access_key: str | None = None  # of the server's store, made when it is first used
    secret_key: str | None = None

    def __repr__(self) -> str:
        return f"Profile({self.name!r}, {self.url!r}, {self.user!r})"  # without secrets


class Profiles:
    def __init__(self, home: Path) -> None:
        self._folder = home / "servers"

    def path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise Misused(f"`{name}` cannot name a profile; {ALLOWED}")
        return self._folder / f"{name}.json"

    def find(self, name: str) -> Profile | None:
        """Returns a profile; raises Misused for a file that others can read, or that is damaged."""
        path = self.path(name)
        if not path.exists():
            return None
        if path.stat().st_mode & 0o077:
            raise Misused(f"others can read {path}, which holds a token; run `chmod 600 {path}`")
        data = read_json(str(path))
        fields = Profile.__dataclass_fields__
        known: dict[str, Any] = {field: data.get(field) for field in fields} if isinstance(data, dict) else {}
        if not all(isinstance(known.get(field), str) for field in ("url", "user", "token")):
            raise Misused(f"{path} is damaged; run `muster login` again")
        return Profile(**{**known, "name": name})

    def names(self) -> list[str]:
        """The names of all profiles."""
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def get(self, name: str) -> Profile:
        found = self.find(name)
        if found is None:
            option = "" if name == DEFAULT else f" --profile {name}"
            raise Misused(f"you are not logged in at a server; run `muster login URL{option}`")
        return found

    def save(self, profile: Profile) -> None:
        """Writes a profile, which is whole and private from its first moment."""
        path = self.path(profile.name)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.new")
        unfinished.unlink(missing_ok=True)
        with open(
            os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(vars(profile), file, indent=1)
        unfinished.rename(path)

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

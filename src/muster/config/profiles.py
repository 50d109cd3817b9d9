"""Adding a profile to `config.toml`: nothing else in the file changes by a byte, and only its owner can read it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.config.sections import ConfigError

HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?")


def add(home: str, name: str, profile: Mapping[str, Mapping[str, Any]], replace: bool = False) -> Path:
    """Writes a profile, such as `{"secrets": {"KEY": "..."}}`; one of that name is kept unless it may be replaced."""
    Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
    path = Path(os.path.realpath(Path(home) / "config.toml"))  # a link stays a link
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        before = path.read_bytes() if path.exists() else b""
        _write(path, _changed(path, before, name, profile, replace))
    finally:
        os.close(folder)
    return path


def exists(home: str, name: str) -> bool:
    """True if there is a profile of that name."""
    path = Path(home) / "config.toml"
    return path.exists() and name in _parsed(path, path.read_bytes()).get("profiles", {})


def _changed(path: Path, before: bytes, name: str, profile: Mapping[str, Mapping[str, Any]], replace: bool) -> bytes:
    data = _parsed(path, before)
    known = dict(data.get("profiles", {}))
    if name in known and not replace:
        raise ConfigError(f"{path} has a profile `{name}` already; choose another name, or replace it with --force")
    kept = _without(before, name) if name in known else before
    ending = b"" if not kept or kept.endswith(b"\n") else b"\n"
    after = kept + ending + (b"\n" if kept else b"") + _section(f"profiles.{_key(name)}", profile).encode()
    known[name] = json.loads(json.dumps(profile))
    try:
        sound = tomllib.loads(after.decode("utf-8-sig")) == {**data, "profiles": known}
    except tomllib.TOMLDecodeError:
        sound = False
    if not sound:
        raise ConfigError(f"{path} writes its profiles in a way that cannot be changed safely; edit `{name}` by hand")
    return after


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{path} is not TOML; correct it first, for nothing in it may be lost") from None


def _without(data: bytes, name: str) -> bytes:
    """The file without the sections of a profile; the caller checks that only these are gone."""
    kept, inside = [], False
    for line in data.decode("utf-8").splitlines(keepends=True):
        found = HEADER.match(line)
        if found:
            parts = [part.strip(" \"'") for part in found.group("name").split(".")]
            inside = parts[:2] == ["profiles", name]
        if not inside:
            kept.append(line)
    return "".join(kept).encode()


def _section(path: str, fields: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in fields.items() if not isinstance(value, Mapping)}
    text = f"[{path}]\n" + "".join(f"{_key(key)} = {_text(value)}\n" for key, value in plain.items()) if plain else ""
    inner = [_section(f"{path}.{_key(key)}", value) for key, value in fields.items() if isinstance(value, Mapping) and value]
    return "\n".join(part for part in (text, *inner) if part)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_\-]+", name) else _text(name)


def _text(value: Any) -> str:
    """A text as TOML writes it."""
    return json.dumps(str(value)).replace("\x7f", "\\u007f")


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise

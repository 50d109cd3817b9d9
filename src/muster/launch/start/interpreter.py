"""The Python of a job: found once, as the real program behind a shim, which would cost every rank its start-up again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from muster.records.files import read_object, write_json


def default() -> str | None:
    """The first `python` or `python3` on the PATH."""
    from shutil import which

    return which("python") or which("python3")


def resolve(path: str, home: str) -> str:
    """The program that `path` starts: itself, or what a pyenv shim leads to. Another script may do more than that."""
    try:
        with open(path, "rb") as file:
            text = file.read(4096)
    except OSError:
        return path
    if not text.startswith(b"#!") or b'/pyenv" exec ' not in text:
        return path
    key = _key(path)
    cache = f"{home}/interpreters.json"
    known = read_object(cache)
    if isinstance(known.get(key), str) and os.access(known[key], os.X_OK):
        return str(known[key])
    done = subprocess.run([path, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    found = done.stdout.strip()
    if done.returncode != 0 or not os.access(found, os.X_OK):
        return path
    write_json(cache, {**known, key: found})
    return found


def _key(path: str) -> str:
    """Everything that a pyenv shim decides by: a change of any of it makes the answer a new one."""
    parts = [path, str(os.stat(path).st_mtime_ns), os.environ.get("PYENV_VERSION", "")]
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folder = Path.cwd()
    for file in (*(parent / ".python-version" for parent in (folder, *folder.parents)), Path(root) / "version"):
        try:
            parts.append(file.read_text().strip())
        except OSError:
            continue
    return "|".join(parts)

"""One run that is recorded once for many tests, each of which gets a copy of its home."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from conftest import gone
from forked_command import ForkedCommand

RECORDS = (".json", ".jsonl", ".log")  # files that may hold the path of their home


class Recorded:
    """A job that was run to its end, in a home of its own."""

    def __init__(self, forked: ForkedCommand, folder: Path, fields: dict[str, Any], **files: str) -> None:
        self._home = folder / "home"
        job = folder / "job" / "job.yaml"
        job.parent.mkdir()
        job.write_text(yaml.safe_dump({"name": "job", "device": "cpu", "grace": "2s", **fields}))
        for name, text in files.items():
            (job.parent / name).write_text(text)
        own = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        done = forked.call(["run", str(job)], folder, {**own, "MUSTER_HOME": str(self._home)}, timeout=60)
        assert done.returncode == 0, done.stderr
        assert not gone(f"MUSTER_HOME={self._home}")

    def copied(self, home: Path) -> Path:
        """Makes the home of a test a copy; returns the directory of the run in it."""
        shutil.copytree(self._home, home, symlinks=True)
        for path in home.rglob("*"):
            if path.suffix in RECORDS and path.is_file() and not path.is_symlink():
                path.write_bytes(path.read_bytes().replace(os.fsencode(self._home), os.fsencode(home)))
        (run,) = (home / "runs").iterdir()
        return run

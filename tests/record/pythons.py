"""The Pythons of jobs: every version that this machine has, each run without any package of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def python_of(version: str) -> str:
    """A Python of exactly this version, or a skipped test."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}")]
    for path in found:
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"there is no Python {version} on this machine")


def call(script: str, *options: str, python: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with nothing in its environment but what is given."""
    words = [python, "-W", "error", "-B", *options, "-c", textwrap.dedent(script)]
    settings = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **env}
    return subprocess.run(words, capture_output=True, text=True, env=settings, timeout=60)


def said(script: str, *options: str, python: str = sys.executable, **env: str) -> str:
    """What a script printed; its failure is that of the test."""
    done = call(script, *options, python=python, **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def recorded(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """What a rank recorded, line by line, each complete."""
    text = (folder / f"record-{rank}.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]

"""Packages of the example workload, unpacked and ready to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packages import EXAMPLE, fill_store, unpacked

from conftest import Muster

WORDS = ("--workload", "train_python_perceptron", "--version", "r1.3", "--arch", "x86_64")


@pytest.fixture(autouse=True)
def installed(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Muster is a command of several words for the scripts of a package."""
    monkeypatch.setenv("MUSTER", " ".join(command))


@pytest.fixture
def modelarts(muster: Muster, tmp_path: Path) -> Path:
    fill_store()
    made = muster("pack", EXAMPLE, *WORDS, "--type", "modelarts")
    assert made.returncode == 0, made.stderr
    return unpacked(tmp_path / made.stdout.strip(), tmp_path)


@pytest.fixture
def offline(muster: Muster, tmp_path: Path) -> Path:
    made = muster("pack", EXAMPLE, *WORDS)
    assert made.returncode == 0, made.stderr
    folder = unpacked(tmp_path / made.stdout.strip(), tmp_path)
    subprocess.run([sys.executable, str(EXAMPLE / "make_data.py"), str(folder / "data")], check=True)
    return folder

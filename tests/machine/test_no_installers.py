"""Tests cannot change the machine: installers refuse, and whoever calls one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from conftest import Muster, WriteJob
from no_installers import NAMES, refused

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", NAMES)
def test_an_installer_refuses_and_the_call_is_noted(name: str) -> None:
    done = subprocess.run([name, "--version"], capture_output=True, text=True)  # harmless, should it be the real one
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{name}: tests must not change the machine\n"
    assert refused() == [f"{name} --version"]
    assert refused() == []


def test_ranks_meet_the_same_programs(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "apt-get --version", "nodes": 2}))
    assert done.returncode == 1
    assert "apt-get: tests must not change the machine" in done.stdout + done.stderr
    assert set(refused()) == {"apt-get --version"}


def test_pip_of_a_python_has_no_index_to_install_from() -> None:
    words = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--dry-run", "--ignore-installed", "six"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "(from versions: none)" in done.stderr


CALLS = """
import subprocess

def test_that_does_not_look():
    subprocess.run(["apt-get", "--version"])

def test_that_does_nothing():
    pass
"""


@pytest.mark.long
def test_a_test_that_calls_an_installer_fails(tmp_path: Path) -> None:
    (tmp_path / "test_calls.py").write_text(CALLS)
    words = [sys.executable, "-m", "pytest", "-p", "no_installers", "-p", "no:cacheprovider", "test_calls.py"]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "an installer was called:\nE         apt-get --version\n" in done.stdout
    assert "2 passed, 1 error" in done.stdout


def test_properties_have_no_deadline() -> None:
    assert settings.default is not None and settings.default.deadline is None  # a busy machine is no failure

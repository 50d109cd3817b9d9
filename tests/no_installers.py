"""Keeps installers out of the reach of tests: whatever a test starts finds programs that refuse instead, and the test fails."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMES = ("apt", "apt-get", "aptitude", "conda", "dnf", "dpkg", "npm", "pip", "pip3", "snap", "systemctl", "yum")
REFUSAL = '#!/bin/sh\necho "${{0##*/}} $*" >> {calls}\necho "${{0##*/}}: tests must not change the machine" >&2\nexit 1\n'
# `python -m pip` is not found on the PATH: it gets no packages from anywhere, keeps none, and leaves the system's Python alone.
PIP = {"PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1", "PIP_REQUIRE_VIRTUALENV": "1"}

_folder = Path(tempfile.gettempdir())  # of this process' own from `pytest_configure` on
_before: dict[str, str | None] = {}


def pytest_configure() -> None:
    """Puts the refusing programs first on the PATH of all tests of this process."""
    global _folder
    _folder = Path(tempfile.mkdtemp(prefix="muster-refused-"))
    _folder.chmod(0o755)  # tests may be somebody else for a while
    for name in NAMES:
        (_folder / name).write_text(REFUSAL.format(calls=_calls()))
        (_folder / name).chmod(0o755)
    wanted = {"PATH": f"{_folder}:{os.environ.get('PATH', os.defpath)}", **PIP}
    _before.update({name: os.environ.get(name) for name in wanted})
    os.environ.update(wanted)


def pytest_unconfigure() -> None:
    for name, value in _before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    shutil.rmtree(_folder)


def refused() -> list[str]:
    """The calls of installers that were refused since this was last asked."""
    if not _calls().exists():
        return []
    found = _calls().read_text().splitlines()
    _calls().unlink()
    return found


def _calls() -> Path:
    return _folder / "calls"


@pytest.fixture(autouse=True)
def nothing_installed() -> Iterator[None]:
    """Fails a test that called an installer, also where it did not look at what came of it."""
    yield
    assert not (calls := refused()), "an installer was called:\n" + "\n".join(calls)

"""The installer of the frameworks: what is there is used as it is, and what is missing is named, with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "frameworks"
STAMP = "from environments import ALL; e = ALL['pytorch']; e.path.mkdir(parents=True); e.stamp.write_text(e.mark())"

Install = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """The installer with a cache of the test's own, in which nothing is installed."""

    def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {**os.environ, "MUSTER_FRAMEWORKS": str(tmp_path / "cache"), "PYTHONPATH": str(SCRIPTS), **env}
        script = words if words[0] == "-c" else (str(SCRIPTS / "install.py"), *words)
        return subprocess.run([sys.executable, *script], capture_output=True, text=True, env=own)

    return call


def test_a_check_installs_nothing_and_says_how_to(install: Install, tmp_path: Path) -> None:
    done = install("--check", "pytorch")
    assert (done.returncode, done.stdout) == (1, "")
    assert "`make test-frameworks` installs it" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_what_is_ready_is_not_installed_again(install: Install, tmp_path: Path) -> None:
    assert install("-c", STAMP).returncode == 0
    done = install("pytorch")
    assert (done.returncode, done.stdout) == (0, f"pytorch: there, in {tmp_path}/cache/pytorch\n")
    assert [file.name for file in (tmp_path / "cache/pytorch").iterdir()] == ["ready"]
    assert install("--check", "pytorch").stdout == f"{tmp_path}/cache/pytorch/bin\n"


def test_what_was_installed_for_other_versions_is_not_ready(install: Install, tmp_path: Path) -> None:
    assert install("-c", STAMP).returncode == 0
    (tmp_path / "cache/pytorch/ready").write_text("of another day\n")
    assert install("--check", "pytorch").returncode == 1


def test_a_program_that_the_system_lacks_is_named_with_its_package(install: Install, tmp_path: Path) -> None:
    done = install("mpi", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "mpirun" in done.stderr
    assert "openmpi-bin" in done.stderr


def test_an_unknown_name_is_refused(install: Install) -> None:
    done = install("torch")
    assert done.returncode == 2
    assert "torch is not one of horovod, mindspore" in done.stderr

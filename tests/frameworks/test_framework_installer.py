"""The installer of the frameworks: what is there is used as it is, and what is missing is named, with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "frameworks"
STAMP = "from environments import ALL; e = ALL['{}']; e.path.mkdir(parents=True); e.stamp.write_text(e.mark())"
OLD = """#!/bin/sh
echo 3.7.{}
"""
NOT_CHOSEN = """#!/bin/sh
echo "pyenv: python3.7: command not found" >&2
exit 127
"""

Variables = dict[str, str]
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
    assert install("-c", STAMP.format("pytorch")).returncode == 0
    done = install("pytorch")
    assert (done.returncode, done.stdout) == (0, f"pytorch: there, in {tmp_path}/cache/pytorch\n")
    assert [file.name for file in (tmp_path / "cache/pytorch").iterdir()] == ["ready"]
    assert install("--check", "pytorch").stdout == f"{tmp_path}/cache/pytorch/bin\n"


def test_what_was_installed_for_other_versions_is_not_ready(install: Install, tmp_path: Path) -> None:
    assert install("-c", STAMP.format("pytorch")).returncode == 0
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


@pytest.fixture
def pythons(tmp_path: Path) -> Variables:
    """Variables with which no other Python than the installer's own is found."""
    (tmp_path / "path").mkdir()
    return {"PATH": str(tmp_path / "path"), "PYENV_ROOT": str(tmp_path / "pyenv")}


def add_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_an_environment_whose_old_python_is_not_there_is_skipped(install: Install, pythons: Variables, tmp_path: Path) -> None:
    done = install("mindspore-2.0", "paddle-1.8", **pythons)
    assert done.returncode == 0
    assert "mindspore-2.0: skipped: it needs Python 3.7" in done.stdout
    assert str(tmp_path / "pyenv/versions") in done.stdout
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_had_is_told_from_what_is_not_installed(install: Install, pythons: Variables, tmp_path: Path) -> None:
    assert install("--check", "paddle-1.8", **pythons).returncode == 3
    add_program(tmp_path / "path/python3.7", OLD.format(16))
    assert install("--check", "paddle-1.8", **pythons).returncode == 1


def test_an_old_python_is_found_where_pyenv_keeps_it(install: Install, pythons: Variables, tmp_path: Path) -> None:
    add_program(tmp_path / "path/python3.7", NOT_CHOSEN)  # pyenv's stand-in for one that is not switched on
    add_program(tmp_path / "pyenv/versions/3.7.9/bin/python", OLD.format(9))
    assert install("-c", STAMP.format("paddle-1.8"), **pythons).returncode == 0
    assert install("--check", "paddle-1.8", **pythons).returncode == 0
    assert (tmp_path / "cache/paddle-1.8/ready").read_text().endswith(" 3.7.9\n")


def test_an_environment_made_with_another_old_python_is_not_ready(install: Install, pythons: Variables, tmp_path: Path) -> None:
    add_program(tmp_path / "path/python3.7", OLD.format(9))
    assert install("-c", STAMP.format("paddle-1.8"), **pythons).returncode == 0
    add_program(tmp_path / "path/python3.7", OLD.format(16))
    assert install("--check", "paddle-1.8", **pythons).returncode == 1


def test_an_old_python_that_cannot_be_used_is_named(install: Install, pythons: Variables, tmp_path: Path) -> None:
    add_program(tmp_path / "path/python3.7", "#!/bin/sh\necho \"No module named '_ssl'\" >&2\nexit 1\n")
    done = install("paddle-1.8", **pythons)
    assert done.returncode == 0
    assert f"{tmp_path}/path/python3.7 cannot be used: No module named '_ssl'" in done.stdout

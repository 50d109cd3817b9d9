"""`from muster import record` in Pythons with a Muster of their own: they keep it, whole, and record all the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from pythons import VERSIONS, call, python_of, recorded, said

import muster
from muster.launch.start import packed_agent

AT_A_DESK = (VERSIONS[0], "{}.{}".format(*sys.version_info))  # the oldest Python of jobs, and the one that everybody has
PACKAGE = Path(muster.__file__).parent
OWN = "import muster; from muster import record; print(muster.__file__); print(record.__file__)"
# What tools such as setuptools put in place for an editable installation of a package that lies elsewhere.
FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "muster":
            return spec_from_file_location(name, {file!r}, submodule_search_locations=[{folder!r}])

sys.meta_path.append(Finder)
"""


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the PYTHONPATH of ranks ends with."""
    return packed_agent.build(str(tmp_path_factory.mktemp("home"))) + "/muster/shims"


class Environment:
    """A virtual environment of a test's own, with nothing in it."""

    def __init__(self, folder: Path, python: str) -> None:
        if python == sys.executable:
            venv.create(folder, with_pip=False)
        else:
            subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = str(folder / "bin/python")
        (self.packages,) = folder.glob("lib/python*/site-packages")

    def said(self, shims: str, script: str) -> list[str]:
        return said(script, python=self.python, PYTHONPATH=shims).splitlines()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv", sys.executable)


def copied(target: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__")))


def test_the_muster_that_runs_these_tests_keeps_its_api(shims: str) -> None:
    script = OWN + "; from muster.launch import api; assert muster.run is api.run; import muster.cli.main"
    assert said(script, PYTHONPATH=shims).splitlines() == [str(PACKAGE / "__init__.py"), str(PACKAGE / "record.py")]


def test_its_command_line_works_in_a_rank(shims: str) -> None:
    words = [sys.executable, "-m", "muster", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": shims})
    assert (done.returncode, done.stderr) == (0, "")
    assert muster.__version__ in done.stdout


def test_an_installed_muster_is_the_one_that_is_imported(environment: Environment, shims: str) -> None:
    own = copied(environment.packages / "muster")
    script = OWN + "; print(muster.Job(boot='train.py').boot)"
    assert environment.said(shims, script) == [str(own / "__init__.py"), str(own / "record.py"), "train.py"]


@pytest.mark.parametrize(
    "version", [pytest.param(name, marks=() if name in AT_A_DESK else pytest.mark.long) for name in VERSIONS]
)
@pytest.mark.parametrize("way", ["path", "finder"])
def test_so_is_an_editable_one(way: str, version: str, tmp_path: Path, shims: str) -> None:
    environment = Environment(tmp_path / "venv", python_of(version))
    own = copied(tmp_path / "source" / "muster")
    if way == "path":
        (environment.packages / "muster.pth").write_text(f"{own.parent}\n")
    else:
        finder = FINDER.format(file=str(own / "__init__.py"), folder=str(own))
        (environment.packages / "muster_finder.py").write_text(finder)
        (environment.packages / "muster.pth").write_text("import muster_finder\n")
    assert environment.said(shims, OWN) == [str(own / "__init__.py"), str(own / "record.py")]


def test_a_muster_without_record_borrows_it(environment: Environment, shims: str, tmp_path: Path) -> None:
    own = copied(environment.packages / "muster")
    (own / "record.py").unlink()
    script = OWN + "; import muster.record; muster.record.metric('a', 1); import muster.records; print(muster.records.__file__)"
    settings = {"PYTHONPATH": shims, "MUSTER_RESULTS": str(tmp_path)}
    lines = said(script, python=environment.python, **settings).splitlines()
    archive = shims.rpartition("/shims")[0]
    assert lines[0] == str(own / "__init__.py")
    assert lines[1].startswith(f"{archive}/record.py")
    assert lines[2] == str(own / "records/__init__.py")
    assert len(recorded(tmp_path)) == 1


def test_a_stranger_of_that_name_keeps_its_own(environment: Environment, shims: str) -> None:
    (environment.packages / "muster.py").write_text("answer = 42\n")
    script = "import muster; from muster import record; print(muster.answer, record.active)"
    assert environment.said(shims, script) == ["42 False"]


def test_a_directory_that_only_has_the_name_is_nobodys(environment: Environment, shims: str) -> None:
    (environment.packages / "muster").mkdir()
    archive = shims.rpartition("/shims")[0]
    assert all(line.startswith(archive) for line in environment.said(shims, OWN))


def test_a_run_within_a_run_finds_its_own(shims: str, tmp_path: Path) -> None:
    """Each adds its shims to the PYTHONPATH, and neither takes those of the other for an installed Muster."""
    other = str(tmp_path / "other.pyz")
    shutil.copy(shims.rpartition("/muster/shims")[0], other)
    both = f"{other}/muster/shims:{shims}"
    assert all(line.startswith(other) for line in said(OWN, "-S", "-s", PYTHONPATH=both).splitlines())
    assert said(OWN, PYTHONPATH=both).splitlines()[0] == str(PACKAGE / "__init__.py")


def test_the_rooms_of_the_agent_are_not_for_jobs(shims: str) -> None:
    for name in ("agent", "runs", "storage", "shims"):
        done = call(f"import muster.{name}", "-S", "-s", PYTHONPATH=shims)
        assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: No module named 'muster.{name}'"


def test_an_installed_muster_that_is_broken_says_why(environment: Environment, shims: str) -> None:
    (environment.packages / "muster").mkdir()
    (environment.packages / "muster/__init__.py").write_text("import nothing_of_that_name\n")
    done = call(OWN, python=environment.python, PYTHONPATH=shims)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'nothing_of_that_name'"

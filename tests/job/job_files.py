"""Job files of the tests: written as given, and what the loader says about them."""

from __future__ import annotations

from pathlib import Path

from muster.job import Job
from muster.job.load import load
from muster.job.source import JobError, Problem


def write(folder: Path, text: str | bytes) -> Path:
    """A job file beside an empty `train.py`."""
    (folder / "train.py").touch()
    path = folder / "job.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def accepted(folder: Path, text: str | bytes, *sets: str) -> Job:
    return load(write(folder, text), sets).checked()


def refused(folder: Path, text: str | bytes, *sets: str) -> list[Problem]:
    """What is wrong with a job file; each problem is told on one line, with something to do about it."""
    path = write(folder, text)
    try:
        job = load(path, sets).checked()
    except JobError as error:
        assert error.problems
        for problem in error.problems:
            assert problem.hint, f"no hint: {problem}"
            assert problem.file == str(path) or problem.file.startswith("--set ")
            assert str(problem).isprintable()
        return error.problems
    raise AssertionError(f"it was accepted: {job}")


def one(folder: Path, text: str | bytes, *sets: str) -> Problem:
    found = refused(folder, text, *sets)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]

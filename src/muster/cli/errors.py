"""Errors as people see them: what is wrong and what to do, and the exit code that says which kind it was."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from muster.cli import output
from muster.cli.output import style

INPUT, UNREACHABLE, FAILED = 2, 3, 1


def show(error: Exception) -> int:
    """Prints an error and returns the exit code for it."""
    # here and not above: commands import this module before anything has gone wrong
    from muster.bench.errors import BundleError
    from muster.config import ConfigError
    from muster.engines import EngineError, Refused
    from muster.job.source import JobError
    from muster.launch.names import RunNotFound
    from muster.records.damage import Damaged
    from muster.storage import InvalidName, InvalidRequest, NoSuchBucket, NotFound, StorageError
    from muster.tester.errors import Misused, Unreachable

    if isinstance(error, JobError):
        for problem in error.problems:
            _print(str(problem))
        count = len(error.problems)
        if count > 1:
            _print(f"{count} problems; nothing was started")
        return INPUT
    invalid = ConfigError | RunNotFound | BundleError | Misused | Refused | InvalidRequest | InvalidName | NotFound
    if isinstance(error, invalid | EngineError | Unreachable | StorageError):
        _print(str(error))
        return INPUT if isinstance(error, invalid) and not isinstance(error, NoSuchBucket) else UNREACHABLE
    if isinstance(error, Damaged):
        _print(f"the record of the run is damaged: {error}; `muster rm` deletes it")
        return FAILED
    if isinstance(error, OSError):
        what = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
        _print(f"{what}; check the disk and the permissions of MUSTER_HOME")
        return FAILED
    _print(f"{type(error).__name__}: {error}; this is a defect of Muster, `muster --debug ...` shows where")
    return FAILED


def show_usage(error: click.ClickException) -> None:
    """Prints what click says of wrong usage, without the passwords of URLs that it repeats."""
    from muster.job.kinds import without_password

    text = io.StringIO()
    error.show(text)
    click.echo(without_password(text.getvalue()), nl=False, err=True)


@contextmanager
def shown_as_json(json: bool) -> Iterator[None]:
    """With `--json`, says in the object of `muster run` too why nothing was started."""
    try:
        yield
    except Exception as error:
        if json:
            from muster.job.kinds import without_password
            from muster.job.source import JobError

            empty: dict[str, Any] = dict.fromkeys(output.MAIN_KEYS)
            problems = [vars(problem) for problem in error.problems] if isinstance(error, JobError) else []
            output.print_json({**empty, "reason": without_password(str(error)), "problems": problems})
        raise


def _print(text: str) -> None:
    from muster.job.kinds import without_password

    mark = style("muster:", fg="red", bold=True) if sys.stderr.isatty() else "muster:"
    click.echo(f"{mark} {without_password(output.plain(text))}", err=True)

"""The command line in a fork of the process of the test, where everything is imported already: for texts and exit codes.

`pytestmark = pytest.mark.forked` lets `muster(...)` of a module be this. A start of Python takes most of the time of a short
command. What starts runs that go on, or is about that start, about signals or a terminal needs a process of its own.
"""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import NoReturn

from muster.cli import main

# What commands import when they need it.
IMPORTED_LATER = (
    *("aisbench.importing", "bench.report.sources", "cli.errors", "engines.local.engine", "job.load", "launch.follow"),
    *("launch.reconcile", "launch.start.prepare", "launch.start.submit", "launch.views", "plan.ranktable", "records.ranks"),
)


def call(words: list[str], cwd: Path, env: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Runs `muster` with some words, as `subprocess.run` would."""
    _import()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons: pytest-timeout and xdist have threads
            child = os.fork()
        if child == 0:
            _become(words, cwd, env, out.fileno(), err.fileno())
        code = _wait(child, timeout)
        said = [_read(file) for file in (out, err)]
    return subprocess.CompletedProcess(["muster", *words], code, *said)


@cache
def _import() -> None:
    """Imports here, once, what every fork would import again."""
    for name in main.COMMANDS:
        importlib.import_module(f"muster.cli.{name.replace('-', '_')}_command")
    for name in IMPORTED_LATER:
        importlib.import_module(f"muster.{name}")


def _become(words: list[str], cwd: Path, env: dict[str, str], out: int, err: int) -> NoReturn:
    code = 1
    try:
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
        os.chdir(cwd)
        os.environ.update(env)
        warnings.simplefilter("default")
        sys.argv = ["muster", *words]
        main.main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, timeout: float) -> int:
    deadline = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise TimeoutError(f"muster took longer than {timeout} s")
        time.sleep(0.002)


def _read(file: io.BufferedRandom) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")

"""Installs the frameworks of the examples, each into a cached environment of its own; a second call finds everything there."""

from __future__ import annotations

import argparse
import fcntl
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import horovod_wheel
import system_packages
from environments import ALL, Environment, root

PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
AT_ONCE = 2  # one is compiled while the others are fetched and unpacked
CANNOT_BE_HAD = 3  # the exit code of a check: no installation would help


class InstallError(Exception):
    """A framework that is not there, and what to do about it."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def main() -> int:
    args = parse_args()
    environments = [ALL[name] for name in args.names or ALL]
    if args.check:
        return max([attempt(check, environment) for environment in environments])
    system_packages.provide(tool for environment in environments for tool in environment.tools)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return max(pool.map(partial(attempt, install), environments))


def attempt(action: Callable[[Environment], None], environment: Environment) -> int:
    """Do it for one environment; the others do not suffer when it fails."""
    try:
        action(environment)
    except InstallError as error:
        print(f"{environment.name}: {error}", file=sys.stderr)
        return error.code
    return 0


def check(environment: Environment) -> None:
    """Name the directory of its programs, or say what is missing; nothing is installed."""
    if reason := environment.impossible:
        raise InstallError(reason, CANNOT_BE_HAD)
    refuse_missing_tools(environment)
    if not environment.ready:
        raise InstallError(f"not installed in {environment.path}; `make test-frameworks` installs it, {environment.size}")
    print(environment.bin)


def install(environment: Environment) -> None:
    if reason := environment.impossible:
        say(f"{environment.name}: skipped: {reason}")
        return
    refuse_missing_tools(environment)
    with alone(environment):
        if environment.ready:
            say(f"{environment.name}: there, in {environment.path}")
            return
        say(f"{environment.name}: into {environment.path}, about {environment.size}")
        started = time.monotonic()
        try:
            fill(environment)
        except subprocess.CalledProcessError as error:
            raise InstallError("not installed; see above why, and call again to start from nothing") from error
        environment.stamp.write_text(environment.mark())
        say(f"{environment.name}: installed in {time.monotonic() - started:.0f} s")


def refuse_missing_tools(environment: Environment) -> None:
    if missing := system_packages.missing(environment.tools):
        raise InstallError(system_packages.advice(missing))


def fill(environment: Environment) -> None:
    shutil.rmtree(environment.path, ignore_errors=True)
    make(environment)
    python = environment.bin / "python"
    run(python, *PIP, "-r", environment.requirements)
    if environment.built:
        say(f"{environment.name}: compiling, some 5 minutes on 2 cores unless the wheel was kept")
        run(python, *PIP, "--no-deps", horovod_wheel.build(python, root() / "wheels"))


def make(environment: Environment) -> None:
    """A Python without ensurepip (Debian without python3-venv) gets the newest pip that it can run."""
    if subprocess.run([environment.python, "-m", "venv", environment.path], capture_output=True).returncode == 0:
        return
    run(environment.python, "-m", "venv", "--clear", "--without-pip", environment.path)
    with tempfile.TemporaryDirectory(prefix="muster-pip-") as temporary:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        run(*download, *(["--python-version", environment.old] if environment.old else []), "-d", temporary, "pip")
        (wheel,) = Path(temporary).glob("pip-*.whl")
        run(environment.bin / "python", wheel / "pip", "install", "--quiet", "--no-index", wheel)


def say(line: str) -> None:
    """Show a line at once and whole: two environments are installed at a time."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


@contextmanager
def alone(environment: Environment) -> Iterator[None]:
    """One installer at a time in one environment: a second one waits and finds it ready."""
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / f"{environment.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)} (default: all)")
    parser.add_argument("--check", action="store_true", help="install nothing; print where the programs of each are")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in ALL]:
        parser.error(f"{unknown[0]} is not one of {', '.join(ALL)}")
    return args


if __name__ == "__main__":
    sys.exit(main())

"""Installs the frameworks of the examples, each into a cached environment of its own; a second call finds everything there."""

from __future__ import annotations

import argparse
import fcntl
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import horovod_wheel
import system_packages
from environments import ALL, Environment, root

PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]


class InstallError(Exception):
    """A framework that cannot be had, and why."""


def main() -> int:
    names = _parse_args().names or list(ALL)
    failed = False
    for name in names:
        try:
            install(ALL[name])
        except InstallError as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failed else 0


def install(environment: Environment) -> None:
    if advice := system_packages.provide(environment.tools):
        raise InstallError(advice)
    with _alone(environment):
        if environment.ready:
            return
        print(f"{environment.name}: into {environment.path}, about {environment.size}", flush=True)
        started = time.monotonic()
        try:
            _fill(environment)
        except subprocess.CalledProcessError as error:
            raise InstallError("not installed; what pip said is above, and a new call starts again from nothing") from error
        environment.stamp.write_text(environment.mark())
        print(f"{environment.name}: installed in {time.monotonic() - started:.0f} s", flush=True)


def _fill(environment: Environment) -> None:
    shutil.rmtree(environment.path, ignore_errors=True)
    _make(environment)
    python = environment.bin / "python"
    _run(python, *PIP, "-r", environment.requirements)
    if environment.built:
        print(f"{environment.name}: compiling, about 6 minutes on 2 cores unless the wheel is kept from before", flush=True)
        _run(python, *PIP, "--no-deps", horovod_wheel.build(python, root() / "wheels"))


def _make(environment: Environment) -> None:
    """A Python without ensurepip (Debian without python3-venv) makes the environment with the pip it has."""
    if subprocess.run([sys.executable, "-m", "venv", environment.path], capture_output=True).returncode == 0:
        return
    _run(sys.executable, "-m", "venv", "--clear", "--without-pip", environment.path)
    _run(sys.executable, "-m", "pip", "--python", environment.bin / "python", "install", "--quiet", "pip")


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


@contextmanager
def _alone(environment: Environment) -> Iterator[None]:
    """One installer at a time in one environment: a second one waits and finds it ready."""
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / f"{environment.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], metavar="NAME", help=f"of {', '.join(ALL)} (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

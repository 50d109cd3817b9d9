"""Fixtures of all tests: a home of its own for each, the real command line, and a check that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from behaviour import WAYS
from behaviour import configure as configure
from behaviour import engine as engine
from behaviour import no_namespaces as no_namespaces
from behaviour import node_name as node_name
from behaviour import pytest_addoption as pytest_addoption
from behaviour import pytest_collection_modifyitems as pytest_collection_modifyitems
from behaviour import pytest_generate_tests as pytest_generate_tests
from behaviour import runs_at as runs_at
from behaviour import stopper as stopper
from browser import browser as browser
from forked_command import ForkedCommand
from host_machines import machines as machines
from host_machines import machines_of_worker as machines_of_worker
from host_machines import on_hosts as on_hosts
from muster.linux.ssh_programs import ssh_unavailable
from muster_server import _server_of_worker as _server_of_worker
from muster_server import administered as administered
from muster_server import serve_muster as serve_muster
from muster_server import user as user
from no_installers import nothing_installed as nothing_installed
from no_installers import pytest_configure as pytest_configure
from no_installers import pytest_unconfigure as pytest_unconfigure
from postgres_server import _postgres_of_worker as _postgres_of_worker
from postgres_server import database_url as database_url
from postgres_server import postgres as postgres
from postgres_server import postgres_url as postgres_url
from s3_server import s3 as s3
from slurm_cluster import slurm as slurm
from slurm_cluster import slurm_site as slurm_site
from tester_server import serve as serve
from tester_server import tester as tester

Muster = Callable[..., "subprocess.CompletedProcess[str]"]
WriteJob = Callable[..., Path]

needs_ssh = pytest.mark.skipif(ssh_unavailable() is not None, reason=f"no ssh between nodes: {ssh_unavailable()}")

# How long an example takes says nothing on a busy machine.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:  # by nohup, or a shell's `&`; programs would inherit that, but no handler
        signal.signal(number, lambda number, frame: None)


def processes_with(marker: str) -> list[str]:
    """Living processes that carry `marker` (NAME=VALUE) in their environment, this one apart."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            words = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            state = Path(f"/proc/{name}/stat").read_bytes().rsplit(b")", 1)[1].split()[0]
        except OSError:
            continue
        if marker.encode() in environment and state not in (b"Z", b"X"):
            found.append(f"{name}: {words}")
    return found


def outside(told: int, *marks: str) -> int:
    """The id that a process has here: its node, which told one, may have ids of its own."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_text(errors="replace").split("\0")
            numbers = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:")).split()
        except OSError:  # it ended meanwhile
            continue
        if str(told) in numbers[1:] and set(marks) <= set(environment):
            return int(folder.name)
    raise ProcessLookupError(f"process {told} is gone")


def gone(marker: str, limit: float = 10.0) -> list[str]:
    """Waits until no process carries the marker; returns those that still do when the time is up."""
    deadline = time.monotonic() + limit
    while left := processes_with(marker):
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []


def until(condition: Callable[[], Any], limit: float = 30.0) -> Any:
    """Waits for a condition and returns what it gave; fails when it never holds."""
    deadline = time.monotonic() + limit
    while True:
        if found := condition():
            return found
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def _descriptors() -> dict[str, str]:
    found = {}
    for name in {*os.listdir("/proc/self/fd")} - {*map(str, ForkedCommand.kept)}:
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def _opened_since(before: dict[str, str], limit: float = 5.0) -> list[str]:
    """Descriptors that are still open when the time is up: the thread of a server may be about to close one."""
    deadline = time.monotonic() + limit
    while opened := [f"{number} -> {target}" for number, target in _descriptors().items() if before.get(number) != target]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return opened


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A MUSTER_HOME of the test's own. Afterwards no process of it may live and no descriptor may be left open."""
    path = tmp_path / "home"
    monkeypatch.setenv("MUSTER_HOME", str(path))
    for name in [name for name in os.environ if name.startswith("MUSTER_") and name != "MUSTER_HOME"]:
        monkeypatch.delenv(name)
    before = _descriptors()
    yield path
    left = gone(f"MUSTER_HOME={path}")
    assert not left, "processes were left behind:\n" + "\n".join(left)
    opened = _opened_since(before)
    assert not opened, "descriptors were left open:\n" + "\n".join(opened)


@pytest.fixture(params=WAYS["local"])
def containment(request: pytest.FixtureRequest, home: Path) -> str:
    """Both ways in which the local engine keeps its nodes together."""
    kind = str(request.param)
    if kind == "plain":
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text("[local]\nnamespaces = false\n")
    else:
        if reason := no_namespaces():
            pytest.skip(f"namespaces are not to be had: {reason}")
    return kind


@pytest.fixture
def command() -> list[str]:
    """The command line as a list of words, for tests that start it themselves."""
    return [sys.executable, "-m", "muster"]


@pytest.fixture(scope="session")
def forked_command() -> Iterator[ForkedCommand]:
    forked = ForkedCommand()
    yield forked
    forked.close()


@pytest.fixture
def muster(command: list[str], forked_command: ForkedCommand, tmp_path: Path) -> Muster:
    """Runs the real command line, as a process of its own, and returns what it said."""

    def call(*words: object, timeout: float = 60, cwd: Path = tmp_path, **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **env}
        if forked_command.serves(environment):
            return forked_command.call([*map(str, words)], cwd, environment, timeout)
        return subprocess.run(
            [*command, *map(str, words)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env=environment,
        )

    return call


@pytest.fixture
def write_job(tmp_path: Path, runs_at: str) -> WriteJob:
    """Writes a code directory and a job file in it: `write_job({"nodes": 2}, **{"train.py": "..."})`."""

    def write(fields: dict[str, Any] | None = None, /, **files: str) -> Path:
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        data: dict[str, Any] = {"name": "job", "device": "cpu", "grace": "2s", **(fields or {})}
        if "boot" not in data and "command" not in data and "train.py" in files:
            data["boot"] = "train.py"
        if data.get("boot"):
            data.setdefault("python", "python3" if runs_at == "hosts" else sys.executable)
        job = folder / "job.yaml"
        job.write_text(yaml.safe_dump(data))
        return job

    return write


@pytest.fixture
def run_json(muster: Muster, home: Path) -> Callable[..., dict[str, Any]]:
    """Runs a job to its end and returns what `muster show --json` says of it."""

    def call(job: Path, *words: object, **env: str) -> dict[str, Any]:
        done = muster("run", job, "--json", *words, **env)
        brief = json.loads(done.stdout)
        details: dict[str, Any] = json.loads(muster("show", brief["run"], "--json").stdout)
        assert {key: details[key] for key in brief} == brief
        details["dir"] = str(home / "runs" / brief["run"])  # that of a server is an address
        return {**details, "exit": done.returncode, "stderr": done.stderr}

    return call

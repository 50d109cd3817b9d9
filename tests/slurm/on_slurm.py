"""A run on a Slurm site: started by the real command line, watched through its directory, disturbed through Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until
from muster.records.files import read_events
from muster.records.layout import RunDir
from slurm_cluster import Cluster

# A rank that says when it is told to end, takes a moment to save, and ends.
SAVES = """
trap 'echo told; sleep 0.5; echo saved; exit 0' TERM
echo "up $MUSTER_ATTEMPT"
until [ -e "$MUSTER_SHARED/enough" ]; do sleep 0.1; done
"""


class OnSlurm:
    """A detached run."""

    def __init__(self, site: Cluster, muster: Muster, job: Path, **env: str) -> None:
        done = muster("run", job, "--engine", "slurm", "--detach", **env)
        assert done.returncode == 0, done.stderr
        self.id = done.stdout.strip()
        self.site, self.muster = site, muster
        self.run = RunDir(f"{os.environ['MUSTER_HOME']}/runs/{self.id}")

    @property
    def job(self) -> str:
        """The number of its Slurm job, of the last one where it was submitted again."""
        return str(self.jobs[-1])

    @property
    def jobs(self) -> list[int]:
        """The numbers of all its Slurm jobs."""
        return sorted(job["job_id"] for job in self.site.jobs().values() if job["name"] == self.id)

    def logs(self, attempt: int = 1) -> str:
        folder = Path(self.run.attempt(attempt).path)
        return "".join(log.read_text() for log in folder.glob("nodes/*/logs/rank-*.log"))

    def until_up(self, count: int, attempt: int = 1) -> None:
        until(lambda: self.logs(attempt).count(f"up {attempt}\n") == count, 60)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in read_events(self.run.events) if event["event"] == name]

    def start_again(self) -> None:
        """Once Slurm has put the job back into its queue: soon, and not after the two minutes that it gives itself.

        Not within the second in which the job ended: its nodes would take the new start for the old one.
        """
        self.site.until(lambda: self.site.job(self.job)["JobState"] == "PENDING", "it was not requeued")
        self.site.run("scontrol", "update", f"JobId={self.job}", "StartTime=now+2")

    def let_end(self) -> dict[str, Any]:
        """Lets the ranks end, and returns how the run did."""
        Path(self.run.shared, "enough").touch()
        return self.end()

    def end(self) -> dict[str, Any]:
        self.muster("wait", self.id, timeout=120)
        return self.shown()

    def shown(self) -> dict[str, Any]:
        """What `muster show` says of it now."""
        found: dict[str, Any] = json.loads(self.muster("show", self.id, "--json").stdout)
        return found


def settle(site: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch, setting: str = "") -> None:
    """Has the commands of a test talk to a site."""
    monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
    write_settings(home, setting)


def write_settings(home: Path, setting: str = "") -> None:
    """Those of a site that shares the directories of the test."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[slurm]\nshared = ["{home.parent}"]\n{setting}\n')


@pytest.fixture
def config(home: Path) -> Callable[[str], None]:
    """Writes the settings of the site."""
    write_settings(home)
    return lambda text: write_settings(home, text)


@pytest.fixture
def site(slurm: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The site that tests share, with nobody else on it."""
    settle(slurm, home, monkeypatch)
    yield slurm
    slurm.clear()


Start = Callable[..., OnSlurm]


@pytest.fixture
def start(muster: Muster, write_job: WriteJob, home: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a run on a site: `start(site, {"nodes": 2})`; its ranks wait unless told otherwise."""

    def call(site: Cluster, fields: dict[str, object], setting: str = "", **env: str) -> OnSlurm:
        settle(site, home, monkeypatch, setting)
        return OnSlurm(site, muster, write_job({"command": SAVES, "grace": "20s", **fields}), **env)

    return call

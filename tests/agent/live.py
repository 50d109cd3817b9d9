"""A run that is going on in the background: looked at, interrupted and killed by the tests of the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from conftest import outside, until
from muster.records.derive import view
from muster.records.layout import RunDir
from muster.records.ranks import ranks
from muster.records.state import read


class Live:
    """`muster run JOB` as a process of its own; leave the block and it is gone."""

    def __init__(self, command: list[str], job: Path, *words: str, **env: str) -> None:
        self.home = Path(os.environ["MUSTER_HOME"])
        known = set(self._ids())
        self.said = job.with_name("said.txt")
        with self.said.open("wb") as output:
            self.command = subprocess.Popen(
                [*command, "run", str(job), *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **env},
            )
        self.run = RunDir(f"{self.home}/runs/{until(lambda: set(self._ids()) - known).pop()}")
        until(lambda: Path(self.run.run).exists())

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        if self.command.poll() is None:
            self.command.kill()
            self.command.wait()

    def _ids(self) -> list[str]:
        return os.listdir(self.home / "runs") if (self.home / "runs").is_dir() else []

    @property
    def state(self) -> str:
        return view(self.run).state.value

    @property
    def processes(self) -> list[dict[str, Any]]:
        last = self.run.last_attempt()
        return [rank.to_json() for rank in ranks(last, read(self.run).job, False)] if last else []

    def until_running(self, count: int = 1) -> None:
        """Waits until this many processes said `up` in their logs."""
        until(lambda: self.state == "running" and self.logs().count("up\n") >= count)

    def logs(self) -> str:
        return "".join(log.read_text(errors="replace") for log in sorted(Path(self.run.path).glob("attempts/*/nodes/*/logs/*")))

    def log(self, rank: int = 0, attempt: int = 1) -> str:
        found = list(Path(self.run.path).glob(f"attempts/{attempt}/nodes/*/logs/rank-{rank}.log"))
        return found[0].read_text(errors="replace") if found else ""

    def rank(self, number: int) -> int:
        """The process id of a rank, as this machine sees it."""
        told = int(next(process["pid"] for process in self.processes if process["rank"] == number))
        return outside(told, f"MUSTER_RUN={self.run.id}", f"MUSTER_RANK={number}")

    def agent(self, node: int) -> int:
        told = int(json.loads(Path(self.run.path, f"attempts/1/nodes/{node}/facts.json").read_text())["agent"])
        known = read(self.run).run
        return told if known["engine"] != "slurm" else outside(told, f"MUSTER_HOME={self.home}", f"SLURM_PROCID={node}")

    @property
    def supervisor(self) -> int:
        """The process id of the supervisor of a local run."""
        pid, _, birth = str(until(lambda: json.loads(Path(self.run.run).read_text())["handle"])).partition(":")
        assert birth, f"{pid} is not the process id of a supervisor"
        return int(pid)

    def interrupt(self) -> None:
        self.command.send_signal(signal.SIGINT)

    def end(self) -> dict[str, Any]:
        """Waits for the command; returns the final record of the run, with the command's exit code."""
        code = self.command.wait(60)
        return {**self.final(), "exit": code}

    def final(self) -> dict[str, Any]:
        """The final record, once somebody wrote it."""
        found: dict[str, Any] = json.loads(until(lambda: Path(self.run.final).exists() and Path(self.run.final).read_text()))
        return found


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
            found.append(str(path.relative_to(folder)))
    return found

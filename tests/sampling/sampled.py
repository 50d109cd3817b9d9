"""A real sampler beside real processes, under a small program that stands where the agent does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from muster.launch.start import packed_agent
from muster.records.layout import NodeDir

# Does what the agent does for a sampler: adopts orphans, starts it and the ranks, says which they are, ends it.
AGENT = """
import json, os, subprocess, sys
from muster.linux.syscalls import adopt_orphans
adopt_orphans()
node, sampler, ranks = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
process = subprocess.Popen(sampler)
print(process.pid, flush=True)
sys.stdin.readline()
started = {rank: subprocess.Popen(argv, start_new_session=True) for rank, argv in ranks.items()}
with open(node + "/pids.tmp", "w") as file:
    json.dump({rank: each.pid for rank, each in started.items()}, file)
os.rename(node + "/pids.tmp", node + "/pids.json")
sys.stdin.readline()
process.terminate()
print(process.wait(), flush=True)
sys.stdin.read()
for each in started.values():
    os.killpg(each.pid, 9)
"""


IDLE = {"0": [sys.executable, "-c", "import time; time.sleep(600)"]}  # a rank that does nothing


class Sampled:
    """A node that is sampled. Ranks start with `start_ranks`, and the record is there after `end`."""

    def __init__(self, archive: str, folder: Path, ranks: dict[str, list[str]], interval: float, env: dict[str, str]) -> None:
        self.node = NodeDir(str(folder))
        sampler = [sys.executable, "-I", archive, "sample", str(folder), str(interval)]
        self.agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(folder), json.dumps(sampler), json.dumps(ranks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self.pid = int(self._line())

    def _line(self) -> str:
        assert self.agent.stdout is not None
        return self.agent.stdout.readline()

    def _tell(self) -> None:
        assert self.agent.stdin is not None
        self.agent.stdin.write("\n")
        self.agent.stdin.flush()

    def start_ranks(self) -> None:
        self._tell()
        until(lambda: os.path.exists(self.node.pids))

    def end(self) -> int:
        """Tells the sampler to end and returns its exit code."""
        self._tell()
        return int(self._line())

    @property
    def header(self) -> dict[str, Any]:
        with open(self.node.metrics, encoding="utf-8") as file:
            found: dict[str, Any] = json.loads(file.readline())
        return found

    @property
    def samples(self) -> list[dict[str, Any]]:
        with open(self.node.metrics, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()[1:]]

    @property
    def system(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(Path(self.node.system).read_text())
        except FileNotFoundError:
            return {}
        return found

    def rank(self, name: str) -> int:
        """The process id of a rank."""
        return int(json.loads(Path(self.node.pids).read_text())[name])

    def until_sampled(self, times: int = 10) -> None:
        """Waits until the sampler has gone to sleep this often, as it does after each sample, and now and then in between."""
        enough = self._sleeps() + times
        until(lambda: self._sleeps() >= enough)

    def _sleeps(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])

    def until_slow_things_are_done(self) -> None:
        """Starts the ranks and waits until the last of what is asked only now and then has been asked once."""
        self.start_ranks()
        self.until_asked()

    def until_asked(self) -> dict[str, Any]:
        """Waits until the job's Python has told what it has."""
        return dict(until(lambda: self.system if self.system.get("python") else None))


Start = Callable[..., Sampled]


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The packed agent, as it travels to nodes."""
    return packed_agent.build(str(tmp_path_factory.mktemp("packed")))


@pytest.fixture
def sample(archive: str, tmp_path: Path) -> Iterator[Start]:
    """Starts samplers, each in a directory of its own, and leaves none behind."""
    started: list[Sampled] = []

    def start(
        ranks: dict[str, list[str]] | None = None,
        interval: float = 0.05,
        facts: dict[str, Any] | None = None,
        plan: dict[str, Any] | None = None,
        **env: str,
    ) -> Sampled:
        place = tmp_path / f"node-{len(started)}"
        place.mkdir()
        known = {"host": "node-0", "address": "127.1.2.3", "device": "cpu", "devices": [], **(facts or {})}
        (place / "facts.json").write_text(json.dumps(known))
        (place / "plan.json").write_text(json.dumps(plan or {}))
        started.append(Sampled(archive, place, ranks or {}, interval, env))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.agent.communicate()

"""Hosts whose network, sessions, power and submitter fail at random: nothing is left running, nothing that arrived is lost.

`make chaos` and CI make 50 trials, MUSTER_CHAOS sets another number; a failed one is repeated with `-k "[SEED]"`.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import Machines

pytestmark = pytest.mark.long

TRIALS = int(os.environ.get("MUSTER_CHAOS", "50"))
LINES = 250
SAVED = 20_000_000  # bytes of an output, which goes in parts
TRAIN = f"""
import os, sys, time
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.01)
with open(sys.argv[1].split("=", 1)[1] + "/of-" + os.environ["MUSTER_RANK"], "wb") as file:
    file.write(b"saved" * {SAVED // 5})
"""
CONFIG = """engine = "ssh"
[hosts.lab]
nodes = ["h1", "h2"]
lost_after = "6s"
"""


class Trial:
    def __init__(self, seed: int, machines: Machines, live: Live, muster: Muster) -> None:
        self.random = random.Random(seed)
        self.machines, self.live, self.muster = machines, live, muster
        self.seen = {0: b"", 1: b""}

    def log(self, node: int) -> Path:
        return Path(self.live.run.attempt(1).node(node).log(f"rank-{node}"))

    def look(self) -> None:
        """What was there once stays there, and more only follows it."""
        for node, before in self.seen.items():
            now = self.log(node).read_bytes() if self.log(node).exists() else b""
            assert now.startswith(before), f"node {node} had {before[-40:]!r}"
            self.seen[node] = now

    def break_something(self) -> None:
        host = self.random.choice(["h1", "h2"])
        how = self.random.choice(["network", "network", "sessions", "sessions", "supervisor", "power"])
        if how == "network":
            self.machines.cut(host)
            time.sleep(self.random.choice([0.1, 1, 3, 9]))
            self.machines.mend(host)
        elif how == "sessions":
            self.machines.break_connections(host)
        elif how == "supervisor":
            with suppress(ProcessLookupError):
                os.kill(self.live.supervisor, signal.SIGKILL)
            time.sleep(self.random.choice([0, 1, 8]))
            self.muster("reconcile", self.live.run.id)
        else:
            self.machines.power_off(host)
            self.machines.boot(host)


@pytest.mark.parametrize("seed", range(TRIALS))
def test_whatever_breaks_nothing_is_left_running_and_nothing_that_arrived_is_lost(
    seed: int, machines: Machines, home: Path, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    fields = {"python": "python3", "nodes": 2, "grace": "1s", "outputs": {"out": "obs://b/out"}}
    job = write_job(fields, **{"train.py": TRAIN})
    with Live(command, job, "--detach") as live:
        trial = Trial(seed, machines, live, muster)
        until(lambda: live.logs().count("line 0\n") == 2)
        for _ in range(trial.random.randint(1, 3)):
            time.sleep(trial.random.uniform(0, 0.8))
            trial.look()
            trial.break_something()
        muster("wait", live.run.id, timeout=120)
        trial.look()
        state = live.state
    whole = b"".join(b"line %d\n" % number for number in range(LINES))
    assert state in ("succeeded", "failed", "lost", "stopped"), state
    for seen in trial.seen.values():
        assert whole.startswith(seen)
        assert seen == whole or state != "succeeded"
    saved = {path.name: path.stat().st_size for path in home.glob("store/b/out/of-*")}
    assert set(saved.values()) <= {SAVED}, "an output is there whole or not at all"
    assert len(saved) == 2 or state != "succeeded"

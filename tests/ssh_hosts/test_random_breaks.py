"""Network, sshd, power and submitter fail at random, and hosts stand still: nothing is left running, nothing that arrived is
lost.

`make chaos` and CI make 50 trials, MUSTER_CHAOS sets another number, or a range such as 50-99; a failed one is repeated with
`-k "[SEED]"`.
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

FIRST, _, LAST = os.environ.get("MUSTER_CHAOS", "50").rpartition("-")
SEEDS = range(int(FIRST), int(LAST) + 1) if FIRST else range(int(LAST))
LINES = 250
SAVED = 20_000_000  # bytes of an output, which goes in parts
TRAIN = f"""
import os, sys, time
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.01)
out, rank = sys.argv[1].split("=", 1)[1], os.environ["MUSTER_RANK"]
with open(f"{{out}}/half-{{rank}}", "wb") as file:  # it may be stopped in the middle
    file.write(b"saved" * {SAVED // 5})
os.rename(f"{{out}}/half-{{rank}}", f"{{out}}/of-{{rank}}")
"""
LONG = 9  # seconds without power: more than `lost_after`
CONFIG = """engine = "ssh"
[hosts.lab]
nodes = ["h1", "h2"]
lost_after = "6s"
"""


class Trial:
    def __init__(self, seed: int, machines: Machines, live: Live, muster: Muster) -> None:
        self.random = random.Random(seed)
        self.machines, self.live, self.muster = machines, live, muster
        self.seen: dict[tuple[int, int], bytes] = {}  # logs by attempt and node

    def look(self) -> None:
        """What was there once stays there, and more only follows it."""
        for attempt in self.live.run.attempt_numbers():
            for node in (0, 1):
                log = Path(self.live.run.attempt(attempt).node(node).log(f"rank-{node}"))
                before, now = self.seen.get((attempt, node), b""), log.read_bytes() if log.exists() else b""
                assert now.startswith(before), f"node {node} had {before[-40:]!r} in attempt {attempt}"
                self.seen[attempt, node] = now

    def supervisors(self) -> list[int]:
        """The supervisor of the run, the first one or one that took over."""
        mark = f"\0supervise\0{self.live.run.path}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                found += [int(path.parent.name)] if mark in path.read_bytes() else []
        return found

    def break_something(self) -> None:
        host = self.random.choice(["h1", "h2"])
        how = self.random.choice(
            ["network", "network", "silence", "sessions", "sshd", "supervisor", "power", "long power", "freeze"]
        )
        if how == "network":
            self.machines.cut(host)
            time.sleep(self.random.choice([0.1, 1, 3, 9]))
            self.machines.mend(host)
        elif how == "silence":
            self.machines.silence(host)
            time.sleep(self.random.choice([1, 3, 9]))
            self.machines.unsilence(host)
        elif how == "freeze":
            self.machines.freeze(host)
            time.sleep(self.random.choice([1, 9]))
            self.machines.thaw(host)
        elif how == "sessions":
            self.machines.break_connections(host)
        elif how == "sshd":
            self.machines.kill_sshd(host)
        elif how == "supervisor":
            for pid in self.supervisors():
                os.kill(pid, signal.SIGKILL)
            time.sleep(self.random.choice([0, 1, 8]))
            self.muster("reconcile", self.live.run.id)
        else:
            self.machines.power_off(host)
            time.sleep(LONG if how == "long power" else 0)
            self.machines.boot(host)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_breaks_nothing_is_left_running_and_nothing_that_arrived_is_lost(
    seed: int, machines: Machines, home: Path, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    fields = {"python": "python3", "nodes": 2, "grace": "1s", "outputs": {"out": "obs://b/out"}}
    if seed % 3 == 0:
        fields |= {"retries": 2, "retry_on": ["lost"]}
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
        state, last = live.state, live.run.attempt_numbers()[-1]
    whole = b"".join(b"line %d\n" % number for number in range(LINES))
    assert state in ("succeeded", "failed", "lost", "stopped"), state
    for (attempt, _), seen in trial.seen.items():
        assert whole.startswith(seen)
        assert seen == whole or attempt < last or state != "succeeded"
    saved = {path.name: path.stat().st_size for path in home.glob("store/b/out/of-*")}
    assert set(saved.values()) <= {SAVED}, "an output is there whole or not at all"
    assert len(saved) == 2 or state != "succeeded"

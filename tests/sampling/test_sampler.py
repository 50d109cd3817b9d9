"""The sampler as a process: what it writes, for whom it counts, and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from sampled import IDLE, Sampled, Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import until
from muster.agent.sampler.journal import HEADER

BUSY = [sys.executable, "-c", "while True: pass"]
QUIET = ["sleep", "600"]
# Leaves an orphan with a lot of memory, whose parent is gone before anybody has seen it.
ORPHAN = "import time; held = bytearray(64 << 20); time.sleep(600)"
LEAVES_AN_ORPHAN = ["bash", "-c", f"(exec {sys.executable} -c '{ORPHAN}' & ); sleep 600"]


def watched(sampled: Sampled, seconds: float = 1.0) -> list[dict[str, Any]]:
    """Samples of some time with ranks, after some without."""
    until(lambda: sampled.system)
    time.sleep(0.3)
    sampled.start_ranks()
    time.sleep(seconds)
    assert sampled.end() == 0
    return sampled.samples


def brief(sampled: Sampled) -> dict[str, Any]:
    """Has a node sampled for a moment, and returns the header."""
    until(lambda: sampled.system)
    sampled.start_ranks()
    assert sampled.end() == 0
    return sampled.header


def last_of(samples: list[dict[str, Any]], rank: str) -> dict[str, float]:
    return [dict(line["ranks"][rank]) for line in samples if rank in line.get("ranks", {})][-1]


def test_a_node_is_sampled_with_its_machine_and_each_of_its_ranks(sample: Start) -> None:
    samples = watched(sample({"4": BUSY, "5": QUIET}))
    times = [line["t"] for line in samples]
    assert times == sorted(set(times))
    assert all(line["mem"] > 1 << 20 for line in samples)
    rates = samples[-2]
    assert 0 <= rates["cpu"] <= 100
    assert {"disk_read", "disk_write", "net_in", "net_out"} - set(rates) <= set(sampled_missing(rates))
    busy, quiet = last_of(samples, "4"), last_of(samples, "5")
    assert busy["mem"] > quiet["mem"] > 0
    used = {rank: sum(line["ranks"][rank]["cpu"] for line in samples if "ranks" in line) for rank in ("4", "5")}
    assert used["4"] > 100 > 10 > used["5"]
    with_ranks = [line for line in samples if "ranks" in line]
    assert all(line["procs_mem"] >= sum(rank["mem"] for rank in line["ranks"].values()) for line in with_ranks)


def sampled_missing(line: dict[str, Any]) -> list[str]:
    """Rates that a machine without disks or interfaces of its own cannot have."""
    return [] if os.path.exists("/sys/block") else [key for key in ("disk_read", "disk_write") if key not in line]


def test_before_the_ranks_start_the_machine_is_sampled_without_them(sample: Start) -> None:
    samples = watched(sample({"0": QUIET}))
    assert "ranks" not in samples[0] and "cpu" not in samples[0]  # a first look has nothing to compare with
    first = next(index for index, line in enumerate(samples) if "ranks" in line)
    assert first > 1
    assert all("cpu" in line for line in samples[1:-1])  # the last one may come within the same tick of the kernel's clock


def test_the_header_says_what_is_measured_and_why_the_rest_is_not(sample: Start) -> None:
    sampled = sample(interval=0.25)
    header = brief(sampled)
    assert (header["format"], header["interval"], header["devices"]) == ("muster-metrics/1", 0.25, None)
    assert header["missing"]["devices"] == "this node has no devices"
    assert header["missing"]["redfish"] == "no `redfish` is configured"
    assert header["machine"] == sampled.system["machine"]
    with open(sampled.node.metrics, "rb") as file:
        assert len(file.readline()) == HEADER  # room for what turns out to be missing later


def test_nodes_of_one_machine_tell_the_same_machine(sample: Start) -> None:
    found = [brief(sampled)["machine"] for sampled in (sample(), sample())]
    assert found[0] == found[1] != ""


def test_children_and_orphans_of_a_rank_count_for_it(sample: Start) -> None:
    samples = watched(sample({"0": LEAVES_AN_ORPHAN, "1": QUIET}), 2.0)
    assert last_of(samples, "0")["mem"] > 64 << 20 > last_of(samples, "1")["mem"]


def test_ranks_that_a_launcher_starts_are_found_and_counted_apart_from_it(sample: Start) -> None:
    rank = [sys.executable, "-c", "held = bytearray(64 << 20); import time; time.sleep(600)"]
    start = " ".join(f"MUSTER_LAUNCHED=1 MUSTER_RANK={number} {shlex.join(rank)} &" for number in (0, 3))
    samples = watched(sample({"0": ["bash", "-c", f"sleep 0.2; {start} wait"]}, plan={"ssh": 2222}), 2.0)
    assert set(samples[-1]["ranks"]) == {"0", "3"}
    for found in ("0", "3"):
        assert 64 << 20 < last_of(samples, found)["mem"] < 128 << 20


def test_a_rank_that_has_ended_is_left_out_and_not_zero(sample: Start) -> None:
    sampled = sample({**IDLE, "1": QUIET})
    sampled.start_ranks()
    sampled.until_asked()  # it has been looked at
    os.kill(json.loads(Path(sampled.node.pids).read_text())["0"], signal.SIGKILL)
    time.sleep(0.3)
    assert sampled.end() == 0
    samples = sampled.samples
    assert any("0" in line.get("ranks", {}) for line in samples)
    assert list(samples[-1]["ranks"]) == ["1"]


def test_the_node_counts_its_own_processes_and_not_the_sampler(sample: Start) -> None:
    samples = watched(sample(), 0.3)
    assert {line["procs_mem"] for line in samples[1:]} == {0}


def test_nothing_is_written_before_the_end_of_a_short_time_and_then_everything(sample: Start) -> None:
    sampled = sample({"0": QUIET})
    until(lambda: sampled.system)
    sampled.start_ranks()
    time.sleep(0.3)
    assert os.path.getsize(sampled.node.metrics) == 0  # the disk is left alone
    assert sampled.end() == 0
    assert len(sampled.samples) > 1


def test_it_is_nice_to_the_ranks(sample: Start) -> None:
    sampled = sample()
    until(lambda: sampled.system)
    assert os.getpriority(os.PRIO_PROCESS, sampled.pid) == 10


def test_it_ends_when_its_agent_is_gone(sample: Start) -> None:
    sampled = sample()
    until(lambda: sampled.system)
    os.kill(sampled.agent.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{sampled.pid}").exists() or "Z" in Path(f"/proc/{sampled.pid}/stat").read_text())
    assert sampled.samples


def test_settings_with_passwords_reach_no_program_that_it_starts(sample: Start, tmp_path: Path) -> None:
    shown = tmp_path / "environment"
    tool = tmp_path / "bin" / "npu-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nenv > {shown}.new && mv {shown}.new {shown}; exit 1\n")
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    facts = {"device": "ascend", "devices": [{"id": "0", "ip": ""}]}
    sample(facts=facts, MUSTER_POWER='{"password": "hush-hush"}', MUSTER_STORAGE="hush-hush", PATH=path)
    until(shown.exists)
    assert "hush-hush" not in shown.read_text()

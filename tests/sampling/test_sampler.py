"""The sampler as a process: what it writes, for whom it counts, and how it ends."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampled import IDLE, Sampled, Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import until
from muster.agent.sampler.sample_writer import HEADER

BUSY = [sys.executable, "-c", "while True: pass"]
QUIET = ["sleep", "600"]
# Has a lot of memory, and then says so by a file that it names.
HOLDS = "import sys, time; held = bytearray(64 << 20); open(sys.argv[1], 'w'); time.sleep(600)"


def watched(sampled: Sampled, then: Callable[[], object] = lambda: True) -> list[dict[str, Any]]:
    """Samples from before the ranks start until after something has happened to them."""
    until(lambda: sampled.system)
    sampled.until_sampled()
    sampled.start_ranks()
    until(then)
    sampled.until_sampled()
    assert sampled.end() == 0
    return sampled.samples


def holds(file: Path) -> str:
    """The command of a process that has a lot of memory once the file is there."""
    return shlex.join([sys.executable, "-c", HOLDS, str(file)])


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def seconds_of(samples: list[dict[str, Any]], rank: str) -> float:
    """CPU time of a rank as its samples tell it: each is for the time since the processes were last looked at."""
    looks = [samples[0], *(line for line in samples[1:] if "procs_cpu" in line)]
    used = [line.get("ranks", {}).get(rank, {"cpu": 0.0})["cpu"] / 100 for line in looks]
    times = [line["t"] for line in looks]
    return float(sum(share * (now - before) for share, before, now in zip(used[1:], times, times[1:], strict=False)))


def brief(sampled: Sampled) -> dict[str, Any]:
    """Has a node sampled for a moment, and returns the header."""
    until(lambda: sampled.system)
    sampled.start_ranks()
    assert sampled.end() == 0
    return sampled.header


def last_of(samples: list[dict[str, Any]], rank: str) -> dict[str, float]:
    return [dict(line["ranks"][rank]) for line in samples if rank in line.get("ranks", {})][-1]


@pytest.mark.long
def test_a_node_is_sampled_with_its_machine_and_each_of_its_ranks(sample: Start) -> None:
    sampled = sample({"4": BUSY, "5": QUIET})
    samples = watched(sampled, lambda: cpu_seconds(sampled.rank("4")) > 0.5)
    times = [line["t"] for line in samples]
    assert times == sorted(set(times))
    assert all(line["mem"] > 1 << 20 for line in samples)
    rates = {key: value for line in samples for key, value in line.items()}
    assert 0 <= rates["cpu"] <= 100
    assert {"disk_read", "disk_write", "net_in", "net_out"} - set(rates) <= set(sampled_missing(rates))
    busy, quiet = last_of(samples, "4"), last_of(samples, "5")
    assert busy["mem"] > quiet["mem"] > 0
    assert seconds_of(samples, "4") > 0.4 > 0.1 > seconds_of(samples, "5")
    with_ranks = [line for line in samples if "ranks" in line]
    assert all(line["procs_mem"] >= sum(rank["mem"] for rank in line["ranks"].values()) for line in with_ranks)


def sampled_missing(line: dict[str, Any]) -> list[str]:
    """Rates that a machine without disks or interfaces of its own cannot have."""
    return [] if os.path.exists("/sys/block") else [key for key in ("disk_read", "disk_write") if key not in line]


def test_before_the_ranks_start_the_machine_is_sampled_without_them(sample: Start) -> None:
    samples = watched(sample({"0": QUIET}))
    assert "ranks" not in samples[0] and "cpu" not in samples[0]  # a first look has nothing to compare with
    first = next(index for index, line in enumerate(samples) if "ranks" in line)
    assert any("cpu" in line for line in samples[1:first])


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


def test_children_and_orphans_of_a_rank_count_for_it(sample: Start, tmp_path: Path) -> None:
    """Also an orphan whose parent is gone before anybody has seen it."""
    leaves_an_orphan = ["bash", "-c", f"(exec {holds(tmp_path / 'up')} & ); sleep 600"]
    samples = watched(sample({"0": leaves_an_orphan, "1": QUIET}), (tmp_path / "up").exists)
    assert last_of(samples, "0")["mem"] > 64 << 20 > last_of(samples, "1")["mem"]


def test_ranks_that_a_launcher_starts_are_found_and_counted_apart_from_it(sample: Start, tmp_path: Path) -> None:
    up = {number: tmp_path / str(number) for number in (0, 3)}
    start = " ".join(f"MUSTER_LAUNCHED=1 MUSTER_RANK={number} {holds(file)} &" for number, file in up.items())
    sampled = sample({"0": ["bash", "-c", f"sleep 0.2; {start} wait"]}, plan={"ssh": 2222})
    samples = watched(sampled, lambda: all(file.exists() for file in up.values()))
    assert set(samples[-1]["ranks"]) == {"0", "3"}
    for found in ("0", "3"):
        assert 64 << 20 < last_of(samples, found)["mem"] < 128 << 20


def test_a_rank_that_has_ended_is_left_out_and_not_zero(sample: Start) -> None:
    whole, less = (sample({**IDLE, "1": QUIET}) for _ in range(2))
    for sampled in (whole, less):
        sampled.start_ranks()
        sampled.until_asked()  # it has been looked at
    ended = less.rank("0")
    os.kill(ended, signal.SIGKILL)
    until(lambda: Path(f"/proc/{ended}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert (whole.end(), less.end()) == (0, 0)
    assert [list(sampled.samples[-1]["ranks"]) for sampled in (whole, less)] == [["0", "1"], ["1"]]


def test_the_node_counts_its_own_processes_and_not_the_sampler(sample: Start) -> None:
    samples = watched(sample())
    assert {line["procs_mem"] for line in samples if "procs_mem" in line} == {0}


def test_nothing_is_written_before_the_end_of_a_short_time_and_then_everything(sample: Start) -> None:
    sampled = sample({"0": QUIET})
    until(lambda: sampled.system)
    sampled.start_ranks()
    sampled.until_sampled()
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
    sample(facts=facts, MUSTER_POWER='{"password": "hush-hush"}', PATH=path)
    until(shown.exists)
    assert "hush-hush" not in shown.read_text()

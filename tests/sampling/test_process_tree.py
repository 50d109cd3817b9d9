"""Counting processes for ranks: nothing is lost when they come and go, and nothing is kept of those that went."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from muster.agent.sampler import process_tree
from muster.agent.sampler.process_tree import ProcessTree
from muster.agent.sampler.sample_writer import Sample

# Told a line, runs a child that burns CPU, waits for it and says so.
RANK = """
import subprocess, sys
burn = "import time\\nwhile time.process_time() < 0.3: pass"
for line in sys.stdin:
    subprocess.run([sys.executable, "-S", "-c", burn])
    print("done", flush=True)
"""


Look = Callable[..., ProcessTree]


class Rank:
    def __init__(self) -> None:
        words = [sys.executable, "-c", RANK]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def burn(self) -> None:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin and stdout
        stdin.write("\n")
        stdin.flush()
        assert stdout.readline() == "done\n"


@pytest.fixture
def look() -> Iterator[Look]:
    """Looks at the descendants of this process, less a branch."""
    made: list[ProcessTree] = []

    def make(left_out: int = 0) -> ProcessTree:
        made.append(ProcessTree(os.getpid(), left_out))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def rank() -> Iterator[Rank]:
    rank = Rank()
    rank.burn()  # it is up
    yield rank
    rank.process.communicate()


def used(sample: Sample, rank: str = "0") -> float:
    return sample.ranks[rank]["cpu"]


def test_processes_that_came_and_went_between_two_looks_count(rank: Rank, look: Look) -> None:
    found = look()
    found.set_ranks({"0": rank.process.pid})
    assert found.read(0.0) == Sample()
    rank.burn()
    assert used(found.read(1.0)) >= 25  # 0.3 s of CPU in what is said to be one second
    assert used(found.read(2.0)) < 25  # and once


def test_what_was_counted_while_it_lived_is_not_counted_again_when_it_has_ended(look: Look) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\nimport sys\nsys.stdin.read()"
    shell = ["bash", "-c", f'{sys.executable} -S -c "{burn}"; read again']
    process = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    found = look()
    found.set_ranks({"0": process.pid})
    found.read(0.0)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == b"burnt\n"
    assert used(found.read(1.0)) >= 25
    child = int(subprocess.check_output(["pgrep", "-P", str(process.pid)]))
    os.kill(child, 9)
    while os.path.exists(f"/proc/{child}"):
        pass
    assert used(found.read(2.0)) < 25
    process.communicate()


def test_ranks_that_are_told_later_have_all_of_their_processes(rank: Rank, look: Look) -> None:
    found = look()
    found.read(0.0)
    assert not found.read(1.0).ranks
    found.set_ranks({"7": rank.process.pid})
    assert list(found.pids("7")) == [rank.process.pid]
    assert used(found.read(2.0), "7") < 25


def test_a_branch_can_be_left_out(rank: Rank, look: Look) -> None:
    whole, less = look(), look(rank.process.pid)
    for found in (whole, less):
        found.read(0.0)
    more, fewer = whole.read(1.0).node["procs_mem"], less.read(1.0).node["procs_mem"]
    assert more - fewer > 1 << 20  # other children count for both


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def held() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes with so much memory that the kernel's error, a few pages for each CPU, does not matter."""
    words = [sys.executable, "-S", "-c", "held = bytearray(32 << 20); print(flush=True); import time; time.sleep(600)"]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(4)]
    for process in started:
        assert process.stdout and process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_files_of_processes_do_not_pile_up(look: Look) -> None:
    found = look()
    found.read(-1.0)  # servers of other tests may be children of this process, too
    before = descriptors()
    for moment in range(20):
        process = subprocess.Popen(["sleep", "600"])
        found.read(float(moment))
        kept = descriptors()
        process.kill()
        process.wait()
        assert kept == before + 1
    found.read(100.0)
    assert descriptors() == before


def test_more_processes_than_files_may_be_open_are_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch, look: Look, held: list[subprocess.Popen[bytes]]
) -> None:
    monkeypatch.setattr(process_tree, "MOST_OPEN", 1)
    found = look()
    before = descriptors()
    found.read(0.0)
    everything = found.read(1.0).node["procs_mem"]
    assert descriptors() == before + 1
    for process in held[1:]:
        process.kill()
        process.wait()
    one = found.read(2.0).node["procs_mem"]
    assert one > 32 << 20
    assert everything - one > (len(held) - 1) * (32 << 20)

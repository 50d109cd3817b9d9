"""The processes of a node: found, signalled and killed, wherever they have gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.agent.node.processes import Processes
from muster.linux.proc import descendants

SRC = str(Path(__file__).parents[2] / "src")


def in_a_process_of_its_own(program: str) -> str:
    """What a Python program prints that adopts orphans as an agent does."""
    start = """
import os, signal, time
from muster.linux import syscalls
from muster.agent.node.processes import Processes
from muster.linux.proc import descendants
syscalls.adopt_orphans()
"""
    words = [sys.executable, "-c", start + program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": SRC})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_descendants_are_found_through_all_generations_and_orphans_too() -> None:
    program = """
def family(depth):
    for _ in range(2):
        if depth and os.fork() == 0:
            family(depth - 1)
            time.sleep(1000)
if os.fork() == 0:  # a child that leaves four grandchildren and is gone
    family(2)
    os._exit(0)
os.wait()
family(1)
while len(found := descendants(os.getpid())) < 6 + 2:
    time.sleep(0.01)
print(len(found), len(Processes(False).kill_all()), descendants(os.getpid()))
"""
    assert in_a_process_of_its_own(program) == "8 0 []\n"


def test_who_forks_and_leaves_without_end_is_caught() -> None:
    program = """
for _ in range(30):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
    time.sleep(0.02)
    Processes(False).kill_all()
    time.sleep(0.01)
    assert not descendants(os.getpid())
"""
    assert in_a_process_of_its_own(program) == ""


def test_a_signal_goes_to_every_process_group_once() -> None:
    program = """
reader, writer = os.pipe()
def member(group):
    if os.fork() == 0:
        if group:
            os.setpgid(0, 0)
        def note(number, frame):
            os.write(writer, b"x")
        signal.signal(signal.SIGTERM, note)
        os.write(writer, b"u")
        while True:
            signal.pause()
if os.fork() == 0:
    os.setsid()
    member(False)
    member(True)
    time.sleep(1000)
while len(descendants(os.getpid())) < 3 or os.read(reader, 1) != b"u" or os.read(reader, 1) != b"u":
    time.sleep(0.01)
processes = Processes(False)
processes.signal_all(signal.SIGTERM)
print(os.read(reader, 1), os.read(reader, 1))
processes.kill_all()
os.set_blocking(reader, False)
try:
    print(os.read(reader, 9))
except BlockingIOError:
    print("no more")
"""
    assert in_a_process_of_its_own(program) == "b'x' b'x'\nno more\n"


def test_what_belongs_to_another_user_is_not_waited_for() -> None:
    if os.getuid() != 0:
        pytest.skip("needs root")
    program = """
if (other := os.fork()) == 0:
    os.closerange(0, 3)
    time.sleep(1000)
print(other, flush=True)
os.setresuid(65534, 65534, 65534)
Processes(False).signal_all(signal.SIGTERM)
Processes(False).kill_all()
print("done")
"""
    pid, done = in_a_process_of_its_own(program).split()
    os.kill(int(pid), signal.SIGKILL)
    assert done == "done"


def test_a_process_starts_in_a_session_of_its_own_and_its_end_is_noted(tmp_path: Path) -> None:
    processes, before = Processes(False), descendants(os.getpid())  # such as servers of other tests
    log = tmp_path / "rank-0.log"
    words = ["sh", "-c", "ps -o sid= -p $$; echo $1; exit 3", "sh", "one word"]
    started = processes.start("rank-0", words, dict(os.environ), str(tmp_path), str(log), 0)
    while not processes.reap(stopping=False):
        signal.sigtimedwait([], 0.01)
    assert (started.code, started.signal, started.failed) == (3, None, True)
    session, said = log.read_text().splitlines()
    assert (int(session), said) == (started.pid, "one word")
    assert log.stat().st_mode & 0o777 == 0o600
    assert descendants(os.getpid()) == before


def test_processes_that_ended_are_told_in_the_order_of_their_ends(tmp_path: Path) -> None:
    program = f"""
processes = Processes(False)
for name, pause in (("last", 0.4), ("second", 0.2), ("first", 0.0)):
    processes.start(name, ["sleep", str(pause)], dict(os.environ), "/", "{tmp_path}/" + name)
while descendants(os.getpid()):
    time.sleep(0.01)
print(*(process.name for process in processes.reap(stopping=False)))
"""
    assert in_a_process_of_its_own(program) == "first second last\n"


def test_a_program_that_goes_away_is_searched_again_on_the_path(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program").write_text(f"#!/bin/sh\necho {folder} $1\n")
        (tmp_path / folder / "program").chmod(0o755)
    program = f"""
processes = Processes(False)
env = {{"PATH": "{tmp_path}/none:{tmp_path}/first:{tmp_path}/second:/bin:/usr/bin"}}
def start(word):
    processes.start("rank-0", ["program", word], env, "/", "{tmp_path}/log", 0)
    while not processes.reap(stopping=False):
        time.sleep(0.01)
start("a")
start("b")
os.unlink("{tmp_path}/first/program")
start("c")
"""
    in_a_process_of_its_own(program)
    assert (tmp_path / "log").read_text() == "first a\nfirst b\nsecond c\n"

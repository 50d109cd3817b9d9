"""Signals that come before a process of Muster's own can handle them: none is lost, and none shows a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, gone, processes_with, until
from muster.launch.start import packed_agent
from muster.linux import proc
from muster.linux.held_signals import held


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05])
def test_a_supervisor_that_is_told_to_end_in_its_first_moments(
    number: signal.Signals, delay: float, home: Path, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with early(home, number, "python", delay):
        done = muster("run", write_job({"command": "sleep 1000"}))
    assert done.returncode == 130, done.stderr
    assert f"stopped: the supervisor was told to end ({number.name})" in done.stderr
    assert not list(home.glob("runs/*/supervisor.log")) or not next(home.glob("runs/*/supervisor.log")).read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_agent_that_is_told_to_end_in_its_first_moments(
    number: signal.Signals, containment: str, home: Path, muster: Muster, write_job: WriteJob
) -> None:
    with early(home, number, "muster-node"):
        done = muster("run", write_job({"command": "sleep 1000"}))
    assert done.returncode == 130, done.stderr
    assert "stopped: node 0 was told to end (SIGTERM)" in done.stderr


@contextmanager
def early(home: Path, number: signal.Signals, name: str, delay: float = 0.0) -> Iterator[None]:
    """A process that sends a signal to the first supervisor or agent which it sees, found by its name."""
    words = [sys.executable, "-c", EARLY, str(home), str(int(number)), name, str(delay)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"looking\n"
        yield


EARLY = """
import os, sys, time
home, number, called, delay = sys.argv[1].encode(), int(sys.argv[2]), sys.argv[3].encode(), float(sys.argv[4])
print("looking", flush=True)
seen = set(os.listdir("/proc"))
while True:
    for name in set(filter(str.isdigit, os.listdir("/proc"))) - seen:
        try:
            words = open("/proc/%s/cmdline" % name, "rb").read()
            known_as = open("/proc/%s/comm" % name, "rb").read()
        except OSError:
            continue
        if b"supervise\\0" + home in words and known_as.startswith(called):
            time.sleep(delay)
            os.kill(int(name), number)
            if open("/proc/%s/comm" % name, "rb").read().startswith(called):  # no keeper, which takes its name a moment later
                sys.exit()
            seen.add(name)
"""


@pytest.mark.parametrize(
    "words", [("sample", "DIR", "1"), ("storage", "serve", "0"), ("storage", "copy"), ("engine", "slurm", "pmi-proxy")]
)
def test_a_helper_shows_no_traceback(home: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    argv = [sys.executable, "-I", packed_agent.build(str(home)), *(str(tmp_path) if word == "DIR" else word for word in words)]
    with held(), (tmp_path / "said").open("wb") as said:
        helper = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    with helper:
        helper.send_signal(signal.SIGINT)  # long before it has imported anything
        until(lambda: helper.poll() is not None)
    assert helper.returncode == -signal.SIGINT
    assert (tmp_path / "said").read_text() == ""


def test_a_sampler_that_is_interrupted_says_nothing_among_the_output_of_ranks(command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"command": "echo up; sleep 1000", "bench": {}})) as live:
        mark = f"MUSTER_HOME={live.home}"
        sampler = until(lambda: [line for line in processes_with(mark) if " sample " in line])[0].partition(":")[0]
        os.kill(int(sampler), signal.SIGINT)
        until(lambda: not proc.alive(int(sampler)))
        live.until_running()
        live.interrupt()
        assert live.end()["state"] == "stopped"
        assert "Traceback" not in live.said.read_text()
        assert gone(f"MUSTER_RUN={live.run.id}") == []


def test_ranks_get_their_signals(command: list[str], write_job: WriteJob) -> None:
    """What is held for Muster's own processes must not be held for those that they start."""
    look = "import signal\nprint('blocked', signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGINT))\n"
    with Live(command, write_job({}, **{"train.py": look})) as live:
        assert live.end()["state"] == "succeeded"
        assert live.log() == "blocked set() <built-in function default_int_handler>\n"

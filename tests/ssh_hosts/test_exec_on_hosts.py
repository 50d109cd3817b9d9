"""`muster exec` beside ranks on real hosts: over the user's own ssh, with a terminal where there is one."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import USER, Machines

pytestmark = pytest.mark.long

TELLS = 'echo "$(hostname) $MUSTER_RANK $COLOUR $PWD"'
WAITING = {"command": f"{TELLS}; echo up; sleep 1000", "nodes": 2, "grace": "1s", "env": {"COLOUR": "blue"}, "workdir": "rank"}


@pytest.fixture
def on_hosts(machines: Machines, home: Path) -> Callable[..., None]:
    """Writes the settings of a group of two hosts."""

    def write(*names: str, namespaces: bool = True) -> None:
        home.mkdir(parents=True, exist_ok=True)
        nodes = json.dumps(names or ("h1", "h2"))
        more = "" if namespaces else "namespaces = false\n"
        (home / "config.toml").write_text(f'engine = "ssh"\n[hosts.lab]\nnodes = {nodes}\n{more}')

    return write


@contextmanager
def waiting(command: list[str], write_job: WriteJob, muster: Muster) -> Iterator[Live]:
    """A run whose ranks wait; stopped when the block is left."""
    with Live(command, write_job(WAITING), "--detach") as live:
        live.until_running(2)
        try:
            yield live
        finally:
            muster("stop", live.run.id, "--now")


class Terminal:
    """A command on a terminal."""

    def __init__(self, words: list[str]) -> None:
        pid, self._descriptor = pty.fork()
        if pid == 0:
            os.execvp(words[0], words)
        self._pid = pid
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until(self, text: str) -> None:
        """Reads until the text was shown."""
        while text not in self.shown:
            data = os.read(self._descriptor, 4096).decode(errors="replace")
            assert data, self.shown
            self.shown += data

    def end(self) -> int:
        """Waits for the command; returns its exit code."""
        with suppress(OSError):
            while data := os.read(self._descriptor, 4096):
                self.shown += data.decode(errors="replace")
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.mark.parametrize("how", ["namespaces", "plain", "user"])
def test_a_command_runs_beside_its_rank_on_the_rank_s_host(
    how: str,
    machines: Machines,
    on_hosts: Callable[..., None],
    command: list[str],
    muster: Muster,
    write_job: WriteJob,
) -> None:
    """In its directory and environment, with its own input, output and exit code; also as an ordinary user."""
    on_hosts(*((f"{USER}@h1", f"{USER}@h2") if how == "user" else ()), namespaces=how != "plain")
    asks = f"tr a-z A-Z; {TELLS}; echo oops >&2; exit 42"
    with waiting(command, write_job, muster) as live:
        words = [*command, "exec", live.run.id, "--rank", "1", "--", "bash", "-c", asks]
        done = subprocess.run(words, input="a 'quoted' $word\n", capture_output=True, text=True)
        upper, said = done.stdout.splitlines()
        assert (done.returncode, upper, done.stderr) == (42, "A 'QUOTED' $WORD", "oops\n")
        assert said.startswith("h2 1 blue /")
        assert said == live.log(1).splitlines()[0]
        told = muster("exec", live.run.id, "--json", "--", "bash", "-c", "hostname; echo 'a  b' >&2; exit 3")
        assert json.loads(told.stdout) == {"run": live.run.id, "rank": 0, "code": 3, "output": "h1\na  b\n"}


def test_what_cannot_run_is_explained(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    with waiting(command, write_job, muster) as live:
        for words, code, said in (
            (["--", "no-such-program"], 2, "`no-such-program` was not found on the PATH of rank 0"),
            (["--", "/etc/passwd"], 2, "`/etc/passwd` cannot be run; is it a program?"),
        ):
            done = muster("exec", live.run.id, *words)
            assert (done.returncode, done.stdout) == (code, "")
            assert said in done.stderr
        done = muster("exec", live.run.id, "--", "true", PATH="/nowhere")
        assert (done.returncode, "h1: there is no `ssh` on your PATH" in done.stderr) == (3, True), done.stderr
        machines.cut("h2")
        try:
            done = muster("exec", live.run.id, "--rank", 1, "--", "true")
        finally:
            machines.mend("h2")
        assert done.returncode == 3
        assert "h2: " in done.stderr
        assert "check that it is up" in done.stderr
        for pid in machines.pids("h1"):  # before its end is known here
            if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x001000\x00":
                os.kill(live.supervisor, signal.SIGSTOP)
                os.kill(pid, signal.SIGKILL)
        done = muster("exec", live.run.id, "--rank", 0, "--", "true")
        os.kill(live.supervisor, signal.SIGCONT)
        assert done.returncode == 2
        assert "a command can only run beside a running rank" in done.stderr


def test_an_agent_of_another_version_is_sent_for_it(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    with waiting(command, write_job, muster) as live:
        for blob in (machines.home("h1") / ".muster/blobs").iterdir():
            blob.unlink()
        words = [*command, "exec", live.run.id, "--", "cat"]
        done = subprocess.run(words, input="kept\n", capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr


def test_a_shell_has_a_terminal_and_ctrl_c_goes_to_its_command(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    on_hosts()
    with waiting(command, write_job, muster) as live:
        terminal = Terminal([*command, "exec", live.run.id, "--rank", "1", "--", "bash", "--norc"])
        terminal.until("bash")
        terminal.type("tty; echo on $(hostname) $MUSTER_RANK\n")
        terminal.until("on h2 1\r\n")
        assert "/dev/pts/" in terminal.shown
        terminal.type("sh -c 'echo begun; exec sleep 1000'\n")  # which has the terminal then
        terminal.until("begun\r\n")
        terminal.type("\x03")
        terminal.type("echo code $?\n")
        terminal.until("code 130\r\n")
        terminal.type("exit 7\n")
        assert terminal.end() == 7
        assert "MUSTER-HOST" not in terminal.shown


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 5), (signal.SIGTERM, 6), ("sessions", None)])
def test_without_a_terminal_signals_and_the_end_of_the_connection_reach_the_command(
    how: object,
    code: int | None,
    machines: Machines,
    on_hosts: Callable[..., None],
    command: list[str],
    muster: Muster,
    write_job: WriteJob,
) -> None:
    on_hosts()
    script = "trap 'exit 5' INT; trap 'exit 6' TERM; echo begun; while :; do sleep 0.02; done"
    with waiting(command, write_job, muster) as live:
        words = [*command, "exec", live.run.id, "--", "bash", "-c", script]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as inside:
            assert inside.stdout is not None
            assert inside.stdout.readline() == b"begun\n"
            if isinstance(how, signal.Signals):
                inside.send_signal(how)
            else:
                machines.break_connections("h1")
            assert inside.wait(30) == code or code is None
        until(lambda: not [process for process in machines.left() if script in process])

"""`muster exec`: a command beside a rank, in its node and with its environment; over real ssh in `tests/ssh_hosts`."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from going import background, going, log_of

from behaviour import no_namespaces
from conftest import Muster, WriteJob, gone, needs_ssh, processes_with, until

TELLS = (
    'echo "$(hostname) $(readlink /proc/self/ns/pid) $PWD $MUSTER_RANK $MUSTER_LOCAL_RANK $COLOUR $SET"; echo ready; sleep 1000'
)
FIELDS = {
    "command": TELLS,
    "per": "device",
    "nodes": 2,
    "devices": 2,
    "env": {"COLOUR": "blue"},
    "setup": "export SET=up",
    "workdir": "rank",
}


@pytest.mark.conformance(exec=True)
def test_it_sees_what_the_rank_sees(containment: str, muster: Muster, write_job: WriteJob) -> None:
    """Host name, processes, working directory and environment; also of a rank on another node."""
    asks = TELLS.split(";")[0]
    with going(muster, write_job(FIELDS)) as run_id:
        for rank in (0, 3):
            said = muster("exec", run_id, "--rank", rank, "--", "bash", "-c", asks).stdout
            assert said == log_of(run_id, rank).read_text().splitlines()[0] + "\n"
            assert f" {rank} {rank % 2} blue up\n" in said
        shown = muster("exec", run_id, "--rank", 1, "--", "bash", "-c", "cat /proc/*/environ | tr '\\0' '\\n'").stdout
        assert "MUSTER_RANK=1" in shown


@pytest.mark.conformance(exec=True)
def test_it_ends_with_the_run(containment: str, muster: Muster, command: list[str], write_job: WriteJob) -> None:
    """Also when it has left the terminal, its session and its parent."""
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        muster("exec", run_id, "--", "bash", "-c", "setsid -f sleep 1000 >/dev/null 2>&1")
        assert any("sleep" in process for process in processes_with(f"MUSTER_RUN={run_id}"))
        muster("stop", run_id)
        assert gone(f"MUSTER_RUN={run_id}") == []


def test_in_a_namespace_no_other_node_can_be_seen(muster: Muster, write_job: WriteJob, containment: str) -> None:
    with going(muster, write_job(FIELDS)) as run_id:
        script = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^MUSTER_RANK= | sort -u"
        seen = muster("exec", run_id, "--rank", 2, "--", "bash", "-c", script).stdout.split()
        everything = [f"MUSTER_RANK={rank}" for rank in range(4)]
        assert seen == (everything[2:] if containment == "namespaces" else everything)


@pytest.mark.conformance(exec=True)
def test_its_exit_code_input_and_output_pass_through(
    containment: str, muster: Muster, command: list[str], write_job: WriteJob
) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        words = [*command, "exec", run_id, "--rank", "0", "--", "bash", "-c", "tr a-z A-Z; echo oops >&2; exit 42"]
        done = subprocess.run(words, input="hello\n", capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (42, "HELLO\n", "oops\n")
        killed = muster("exec", run_id, "--", "bash", "-c", "kill -KILL $$")
        assert killed.returncode == 128 + signal.SIGKILL
        told = muster("exec", run_id, "--json", "--", "bash", "-c", "echo one; echo two >&2; exit 3")
        assert json.loads(told.stdout) == {"run": run_id, "rank": 0, "code": 3, "output": "one\ntwo\n"}
        assert told.returncode == 3


@pytest.mark.conformance(exec=True)
def test_what_cannot_run_is_explained(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        for words, said in (
            (["--rank", "3", "--", "true"], "has no rank 3; it has rank 0 alone"),
            (["--", "no-such-program"], "`no-such-program` was not found on the PATH of rank 0"),
            (["--", "/etc/passwd"], "cannot be run"),
            ([], "write the command behind `--`"),
        ):
            done = muster("exec", run_id, *words)
            assert (done.returncode, done.stdout) == (2, "")
            assert said in done.stderr


@pytest.mark.conformance(exec=True)
def test_the_words_of_the_command_are_left_alone(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        done = muster("exec", run_id, "--", "printf", "%s|", "--rank", "7", "--", "--json", "a b", "$HOME")
        assert done.stdout == "--rank|7|--|--json|a b|$HOME|"


@pytest.mark.conformance(exec=True)
def test_an_ended_run_has_no_place_for_it(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    done = muster("exec", "last", "--", "true")
    assert done.returncode == 2
    assert "is not running (succeeded); a command can only run beside a running rank" in done.stderr


@pytest.mark.conformance(
    exec=True, not_on_server="signals have no route; a terminal sends Ctrl-C", not_on_hosts="it looks at a file of the command"
)
def test_it_ends_when_it_is_told_to(muster: Muster, command: list[str], write_job: WriteJob, tmp_path: Path) -> None:
    script = f"trap 'exit 9' TERM; touch {tmp_path}/up; while :; do sleep 0.02; done"
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        with background([*command, "exec", run_id, "--", "bash", "-c", script]) as inside:
            until((tmp_path / "up").exists)
            inside.send_signal(signal.SIGTERM)
            inside.communicate(timeout=30)
        assert inside.returncode == 9


@pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")
def test_in_a_namespace_it_ends_with_the_run(muster: Muster, command: list[str], write_job: WriteJob, tmp_path: Path) -> None:
    with going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id:
        with background([*command, "exec", run_id, "--", "bash", "-c", f"touch {tmp_path}/up; sleep 1000"]) as inside:
            until((tmp_path / "up").exists)
            muster("stop", run_id, "--now")
            inside.communicate(timeout=30)
        assert inside.returncode == 128 + signal.SIGKILL


@pytest.mark.conformance(exec=True)
@needs_ssh
@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun: install openmpi-bin")
def test_beside_a_launcher_it_is_on_the_first_node_from_where_the_others_can_be_reached(
    containment: str, muster: Muster, write_job: WriteJob
) -> None:
    with going(muster, write_job({"framework": "mpi", "nodes": 2, "command": "echo ready; sleep 1000"})) as run_id:
        assert muster("exec", run_id, "--", "bash", "-c", "echo $MUSTER_NODE").stdout == "0\n"
        done = muster("exec", run_id, "--rank", 1, "--", "hostname")
        assert done.returncode == 2
        assert "reach its node with `--rank 0 -- ssh node-1`" in done.stderr
        assert muster("exec", run_id, "--rank", 0, "--", "ssh", "node-1", "echo $MUSTER_NODE").stdout == "1\n"

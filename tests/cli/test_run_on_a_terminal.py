"""`muster run` for somebody who watches: a live line over rank 0's output, and what other ranks said when they fail."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pexpect
import pytest
from going import going

from conftest import Muster, WriteJob

Watch = Callable[..., "AbstractContextManager[pexpect.spawn[str]]"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CLEAR_LINE = "\r\x1b[2K"


@pytest.fixture
def watch(command: list[str]) -> Watch:
    """Runs the command line on a terminal of its own."""

    @contextmanager
    def call(*words: object, columns: int = 100, **env: str) -> Iterator[pexpect.spawn[str]]:
        settings = {**os.environ, "TERM": "xterm-256color", **env}
        child = pexpect.spawn(
            command[0],
            [*command[1:], *map(str, words)],
            env=settings,
            encoding="utf-8",
            codec_errors="replace",
            dimensions=(24, columns),
            timeout=30,
        )
        try:
            yield child
        finally:
            child.close(force=True)

    return call


def rest(child: pexpect.spawn[str]) -> str:
    """What the terminal still gets, until the command is gone."""
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


def plain(text: str) -> str:
    return ESCAPE.sub("", text)


def test_a_live_line_stands_below_the_output_of_rank_0(watch: Watch, write_job: WriteJob, tmp_path: Path) -> None:
    text = f"echo I am $MUSTER_RANK; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo through"
    with watch("run", write_job({"command": text, "per": "device", "nodes": 2, "devices": 2})) as child:
        child.expect_exact("I am 0\r\n")
        child.expect(r"running.*4/4 ranks  0:0\d  job-\d{8}-\d{6}-[a-z]{4}")
        (tmp_path / "go").touch()
        child.expect_exact(CLEAR_LINE + "through\r\n")  # the live line makes room for what rank 0 writes
        said = plain(rest(child))
    assert "✓ succeeded: all 4 ranks succeeded" in said
    assert re.search(r"ranks +4 on 2 nodes", said)
    assert re.search(r"time +\d", said)
    assert re.search(r"run directory +/", said)
    assert child.exitstatus == 0


def test_other_ranks_are_heard_only_when_they_fail(watch: Watch, write_job: WriteJob, tmp_path: Path) -> None:
    text = f"""
        import os, time
        rank = int(os.environ["MUSTER_RANK"])
        print("I am", rank, flush=True)
        open(f"{tmp_path}/{{rank}}", "w").close()
        while rank == 1 and not all(os.path.exists(f"{tmp_path}/{{other}}") for other in (0, 2)):
            time.sleep(0.01)
        if rank == 1:
            for n in range(30):
                print("line", n)
            raise ValueError("no such file")
        time.sleep(1000)
    """
    with watch("run", write_job({"per": "device", "devices": 3}, **{"train.py": text})) as child:
        said = plain(rest(child))
    assert "failed: rank 1 on node 0 exited with code 1: ValueError: no such file" in said
    assert "the last lines of rank 1 on node 0:" in said
    shown = [line.strip() for line in said.splitlines() if line.strip().startswith("| ")]
    assert len(shown) == 20
    assert shown[-1] == "| ValueError: no such file"
    assert "I am 0" in said
    assert "I am 2" not in said
    assert child.exitstatus == 1


def test_what_rank_0_said_itself_is_not_repeated(watch: Watch, write_job: WriteJob) -> None:
    with watch("run", write_job({"command": "echo only once; exit 7"})) as child:
        said = plain(rest(child))
    assert said.count("only once") == 1
    assert "exited with code 7" in said


def test_a_failed_attempt_is_told_before_the_next_one_speaks(watch: Watch, write_job: WriteJob) -> None:
    text = "echo speaking $MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT$MUSTER_RANK != 11 ] || { echo broken; exit 9; }; sleep 0.3"
    with watch("run", write_job({"command": text, "per": "device", "devices": 2, "retries": 1})) as child:
        said = plain(rest(child))
    story = [
        "attempt 1 of 2 failed: rank 1 on node 0 exited with code 9; trying again",
        "| broken",
        "speaking 2",
        "✓ succeeded",
    ]
    places = [said.index(part) for part in story]
    assert places == sorted(places)


def test_ctrl_c_asks_and_says_how_to_insist(watch: Watch, write_job: WriteJob) -> None:
    text = "trap 'echo saving; sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with watch("run", write_job({"command": text, "grace": "30s"})) as child:
        child.expect_exact("ready")
        child.sendintr()
        child.expect_exact("muster: stopping; Ctrl-C again stops at once")
        child.expect_exact("saved")
        said = plain(rest(child))
    assert "✗ stopped: stopped by the user (Ctrl-C)" in said
    assert child.exitstatus == 130


def test_ctrl_c_twice_means_now(watch: Watch, muster: Muster, write_job: WriteJob) -> None:
    with watch("run", write_job({"command": "trap '' TERM; echo ready; while :; do sleep 0.05; done", "grace": "1h"})) as child:
        child.expect_exact("ready")
        child.sendintr()
        child.expect("stopping.*0:0")
        child.sendintr()
        rest(child)
    assert child.exitstatus == 130
    ranks = json.loads(muster("show", "last", "--json").stdout)["attempts"][0]["ranks"]
    assert ranks[0]["signal"] == signal.SIGKILL


def test_a_closed_terminal_stops_the_run_with_its_grace(watch: Watch, muster: Muster, write_job: WriteJob) -> None:
    text = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with watch("run", write_job({"command": text, "grace": "30s"})) as child:
        child.expect_exact("ready")
    view = json.loads(muster("wait", "last", "--json").stdout)
    assert view["state"] == "stopped"
    assert muster("logs", "last").stdout.endswith("saved\n")


def test_a_progress_bar_of_rank_0_is_left_alone(watch: Watch, write_job: WriteJob) -> None:
    text = r"for n in 1 2 3 4 5 6; do printf '\rstep %s' $n; sleep 0.15; done; echo"
    with watch("run", write_job({"command": text})) as child:
        said = rest(child)
    assert "\rstep 1\rstep 2\rstep 3\rstep 4\rstep 5\rstep 6\r\n" in said


def test_the_live_line_never_wraps(watch: Watch, write_job: WriteJob, tmp_path: Path) -> None:
    text = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    with watch("run", write_job({"command": text, "name": "a-long-name" * 4}), columns=40) as child:
        child.expect("running.*…")
        (tmp_path / "go").touch()
        said = f"{child.before}{child.after}{rest(child)}"
    drawn = [plain(line) for line in said.split(CLEAR_LINE) if "ranks  0:0" in line]
    assert drawn
    assert max(map(len, drawn)) <= 40


def test_a_dumb_terminal_gets_plain_lines(watch: Watch, write_job: WriteJob) -> None:
    with watch("run", write_job({"command": "echo hello"}), TERM="dumb") as child:
        said = rest(child)
    assert "[0] hello\r\n" in said
    assert CLEAR_LINE not in said


def test_what_a_run_waits_for_is_told_on_the_live_line(watch: Watch, write_job: WriteJob, muster: Muster) -> None:
    with watch("run", write_job({"setup": "echo preparing; sleep 0.5", "command": "echo working"})) as child:
        child.expect_exact("preparing")
        child.expect(r"starting.*0/1 ranks.*0 of 1 nodes are up")
        child.expect_exact("working")
        rest(child)
    assert child.exitstatus == 0


def test_tables_have_colours_and_one_line_per_run(watch: Watch, muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "exit 1", "name": "bad"}))
    muster("run", write_job({"command": "true", "name": "good"}))
    with watch("ps", columns=72) as child:
        lines = rest(child).splitlines()
    assert len(lines) == 3
    assert "\x1b[32msucceeded" in lines[1]
    assert "\x1b[31mfailed" in lines[2]
    assert all(len(plain(line)) <= 72 for line in lines)
    assert "\x1b" not in muster("ps").stdout


def test_json_is_the_same_on_a_terminal(watch: Watch, muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    with watch("show", "last", "--json") as child:
        shown = rest(child)
    assert json.loads(shown) == json.loads(muster("show", "last", "--json").stdout)


def test_ctrl_c_is_for_the_command_inside_a_node(watch: Watch, muster: Muster, write_job: WriteJob) -> None:
    script = "trap 'echo caught; read line; echo read $line; exit 5' INT; echo waiting; while :; do sleep 0.05; done"
    with (
        going(muster, write_job({"command": "echo ready; sleep 1000"})) as run_id,
        watch("exec", run_id, "--", "bash", "-c", script) as child,
    ):
        child.expect_exact("waiting")
        child.sendintr()
        child.expect_exact("caught")
        child.sendline("a line")
        child.expect_exact("read a line")
        rest(child)
    assert child.exitstatus == 5

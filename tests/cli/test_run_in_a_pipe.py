"""`muster run` where nobody watches: prefixed lines, exit codes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from going import background, going, log_of, only_run, says

from conftest import Muster, WriteJob, until

WAITS = "echo ready; sleep 1000"
SAVES = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
REFUSES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def test_the_lines_of_each_rank_are_complete_and_in_order(muster: Muster, write_job: WriteJob) -> None:
    job = write_job(
        {"per": "device", "nodes": 2, "devices": 2},
        **{"train.py": "import os\nfor n in range(3000): print(os.environ['MUSTER_RANK'], n)"},
    )
    lines = muster("run", job).stdout.splitlines()
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] {rank} {n}" for n in range(3000)]
    assert len(lines) == 4 * 3000


def test_a_last_line_without_an_end_is_shown_too(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "echo one; printf two"}))
    assert done.stdout == "[0] one\n[0] two\n"


def test_a_line_is_never_put_together_from_two_attempts(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "printf $MUSTER_ATTEMPT; [ $MUSTER_ATTEMPT = 2 ] && echo ' well'", "retries": 1})
    done = muster("run", job)
    assert done.stdout == "[0] 1\n[0] 2 well\n"
    assert "attempt 1 of 2 failed: rank 0 on node 0 exited with code 1; trying again" in done.stderr


def test_an_attempt_that_failed_without_a_word_is_told_all_the_same(muster: Muster, write_job: WriteJob) -> None:
    told = muster("run", write_job({"command": "exit 3", "retries": 2})).stderr
    assert "attempt 1 of 3 failed: rank 0 on node 0 exited with code 3; trying again" in told
    assert "attempt 2 of 3 failed: rank 0 on node 0 exited with code 3; trying again" in told


def test_likely_first_mistakes_get_the_right_hint(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    forgotten = muster("run", "--nodes", 2, "python", "train.py")
    assert (forgotten.returncode, "behind `--`" in forgotten.stderr) == (2, True)
    named = muster("run", "train.py")
    assert (named.returncode, "did you mean `muster run -- python train.py`?" in named.stderr) == (2, True)


def test_a_wrong_option_is_named_as_it_was_typed(muster: Muster) -> None:
    done = muster("run", "--nodes", "two", "--set", "devices=0", "--", "true")
    assert done.returncode == 2
    assert "muster: --nodes two: `nodes: two` is not" in done.stderr
    assert "muster: --set devices=0: `devices: 0` is too small" in done.stderr


def test_a_job_that_asks_for_more_than_the_machine_has_is_warned(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "true", "cpus": 90000, "memory": "900T"}))
    assert done.returncode == 0
    assert "asks for 90000 CPUs per node; this machine has" in done.stderr
    assert "asks for 900.0T of memory per node; this machine has" in done.stderr


def test_the_setup_of_each_node_has_lines_of_its_own(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"setup": "printf 'on '; sleep 0.1; echo $MUSTER_NODE", "command": "true", "nodes": 2})
    assert sorted(muster("run", job).stdout.splitlines()) == ["[setup-0] on 0", "[setup-1] on 1"]


def test_the_end_is_told_on_stderr_without_colours(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "echo hello; exit 3", "per": "device", "devices": 2}))
    assert done.returncode == 1
    assert done.stdout.splitlines().count("[0] hello") == 1
    assert "✗ failed: rank " in done.stderr
    assert "exited with code 3" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_wrong_job_exits_with_2_and_creates_nothing(muster: Muster, write_job: WriteJob, home: Path) -> None:
    done = muster("run", write_job({"command": "true", "nodes": 0, "devises": 2}))
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `devices`?" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize("option", ["--dry-run", "--check"])
def test_looking_first_creates_nothing(muster: Muster, write_job: WriteJob, home: Path, option: str) -> None:
    job = write_job({"command": "true"})
    before = sorted(job.parent.iterdir())
    for words in ([], ["--json"]):
        done = muster("run", job, option, *words)
        assert done.returncode == 0
        assert done.stdout
    assert not home.exists()
    assert sorted(job.parent.iterdir()) == before


def test_a_dry_run_shows_what_is_really_submitted(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "echo ready; sleep 1000"})
    shown = json.loads(muster("run", job, "--dry-run", "--json").stdout)["argv"]
    with going(muster, job) as run_id:
        supervisor = json.loads(Path(os.environ["MUSTER_HOME"], "runs", run_id, "run.json").read_text())["handle"].split(":")[0]
        submitted = Path(f"/proc/{supervisor}/cmdline").read_text().split("\0")[:-1]
        of_the_run = [word for word in submitted if run_id not in word]
        assert of_the_run == [word for word in shown if "/runs/" not in word]


def test_a_command_runs_without_a_job_file(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.py").write_text("import os, sys; print(os.environ['MUSTER_WORLD_SIZE'], sys.argv[1:])")
    words = ["--nodes", "2", "--devices", "4", "--device", "cpu", "--", sys.executable, "train.py", "--lr", "1", "--", "--json"]
    done = muster("run", *words, cwd=tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] 8 ['--lr', '1', '--', '--json']" for rank in range(8)]
    assert json.loads(muster("show", "last", "--json").stdout)["name"] == "train"


def test_a_job_and_a_command_exclude_each_other(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "true"}), "--", "true")
    assert done.returncode == 2
    assert "keep one of them" in done.stderr


def test_detached_it_prints_the_id_alone_and_the_run_goes_on(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "sleep 0.3; echo done"})
    done = muster("run", job, "--detach")
    assert (done.returncode, done.stderr) == (0, "")
    run_id = done.stdout.strip()
    assert muster("wait", run_id).returncode == 0
    assert muster("logs", run_id).stdout == "done\n"


@pytest.mark.conformance
def test_one_interrupt_gives_the_ranks_their_grace(command: list[str], write_job: WriteJob) -> None:
    job = write_job({"command": SAVES, "grace": "20s"})
    with background([*command, "run", str(job)]) as run:
        until(lambda: says(log_of(only_run()), "ready"))
        run.send_signal(signal.SIGINT)
        stdout, stderr = run.communicate(timeout=30)
    assert run.returncode == 130
    assert b"[0] saved" in stdout
    assert b"stopped by the user (Ctrl-C)" in stderr


def test_a_second_interrupt_means_now(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": REFUSES, "grace": "1h"})
    with background([*command, "run", str(job)]) as run:
        until(lambda: says(log_of(only_run()), "ready"))
        run.send_signal(signal.SIGINT)
        until(lambda: json.loads(muster("show", "last", "--json").stdout)["state"] == "stopping")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
    assert run.returncode == 130
    view = json.loads(muster("show", "last", "--json").stdout)
    assert view["state"] == "stopped"
    assert view["attempts"][0]["ranks"][0]["signal"] == signal.SIGKILL


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGTERM, "was told to end (SIGTERM)"), (signal.SIGHUP, "the terminal that followed it was closed")],
)
def test_other_signals_stop_the_run_under_their_own_name(
    command: list[str], write_job: WriteJob, number: signal.Signals, reason: str
) -> None:
    with background([*command, "run", str(write_job({"command": SAVES}))]) as run:
        until(lambda: says(log_of(only_run()), "ready"))
        run.send_signal(number)
        _, stderr = run.communicate(timeout=30)
    assert run.returncode == 130
    assert reason in stderr.decode()


def test_under_nohup_a_closed_terminal_stops_nothing(command: list[str], write_job: WriteJob, tmp_path: Path) -> None:
    job = write_job({"command": f"echo ready; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo through"})
    with background(["nohup", *command, "run", str(job)]) as run:
        until(lambda: says(log_of(only_run()), "ready"))
        run.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        stdout, _ = run.communicate(timeout=30)
    assert run.returncode == 0
    assert b"[0] through" in stdout


def test_it_stops_with_the_reader_of_its_output(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "while :; do echo tick; sleep 0.01; done"})
    words = " ".join([*command, "run", str(job)])
    done = subprocess.run(["bash", "-c", f"{words} 2>err | head -1; cat err"], capture_output=True, text=True, cwd=job.parent)
    assert done.stdout.splitlines()[0] == "[0] tick"
    assert "Traceback" not in done.stdout
    assert "defect" not in done.stdout
    view = json.loads(muster("wait", "last", "--json").stdout)
    assert view["state"] == "stopped"


def test_without_a_standard_output_it_runs_all_the_same(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    words = " ".join([*command, "run", str(write_job({"command": "echo hello"}))])
    assert subprocess.run(["bash", "-c", f"{words} <&- >&- 2>&-"]).returncode == 0
    assert muster("logs", "last").stdout == "hello\n"
    words = " ".join([*command, "logs", "last"])
    done = subprocess.run(["bash", "-c", f"{words} >&-"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_where_changes_cannot_be_watched_it_still_listens_to_signals(write_job: WriteJob) -> None:
    polling = "import muster.linux.watch as w, muster.cli.main as m; w.Watch.polling = property(lambda self: True); m.main()"
    with background([sys.executable, "-c", polling, "run", str(write_job({"command": SAVES}))]) as run:
        until(lambda: says(log_of(only_run()), "ready"))
        run.send_signal(signal.SIGINT)
        stdout, _ = run.communicate(timeout=30)
    assert run.returncode == 130
    assert stdout.endswith(b"[0] saved\n")


def test_a_very_long_line_comes_whole(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({}, **{"train.py": "import sys; sys.stdout.write('x' * 30_000_000); print('end')"})
    stdout = muster("run", job).stdout
    assert stdout == "[0] " + "x" * 30_000_000 + "end\n"


@pytest.mark.long
def test_runs_are_not_taken_for_lost_while_they_are_created(muster: Muster, write_job: WriteJob) -> None:
    """Others look at all runs, again and again, while new ones appear and go."""
    watcher = """
import muster
while True:
    for run in muster.list_runs():
        try:
            run.state
        except muster.RunNotFound:
            pass
"""
    job = write_job({"command": "true"})
    with background([sys.executable, "-c", watcher]) as one, background([sys.executable, "-c", watcher]) as two:
        for _ in range(6):
            assert json.loads(muster("run", job, "--json").stdout)["state"] == "succeeded"
            muster("rm", "last")
        assert one.poll() is None
        assert two.poll() is None

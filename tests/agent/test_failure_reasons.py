"""Why a run failed, in words: who was first, how it ended, its exception, its last lines, and the other causes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_run_states import Written

from behaviour import NodeName
from conftest import Muster, WriteJob
from muster.agent.node.processes import Processes, why_not_started
from muster.records.run_view import Failure
from muster.records.text.failures import sentence

RunJson = Callable[..., dict[str, Any]]


def reason(run: Path, code: int, output: str = "", process: str = "rank-0") -> str:
    """The reason of a run that failed because a process ended with this status, as subprocess counts, and this output."""
    written = Written(run)
    written.attempt()
    written.stop("failure")
    end = {"kind": "exit", "code": code, "signal": None} if code >= 0 else {"kind": "signal", "code": None, "signal": -code}
    written.learned(0 if process.startswith("rank-") else -1, **end, process=process, node=0)
    log = Path(written.run.attempt(1).node(0).log(process))
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(output)
    written.event("attempt-ended", attempt=1)
    written.event("ended")
    return str(written.ended()["reason"])


def executed(run: Path, argv: list[str], process: str = "rank-0") -> str:
    """The reason of a run in which one process executed this command."""
    done = subprocess.run(argv, cwd=run.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return reason(run, done.returncode, done.stdout, process)


@pytest.mark.parametrize(
    ("shell", "words"),
    [("exit 129", "exited with code 129 (128 + SIGHUP)"), ("kill -RTMIN $$", "was killed (SIGRTMIN)")],
)
def test_exit_codes_and_signals_by_name(shell: str, words: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": shell}))
    assert (view["exit"], view["state"], view["reason"]) == (1, "failed", f"rank 0 on node 0 {words}")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "exited with code 1"),
        (255, "exited with code 255"),
        (128, "exited with code 128"),
        (129, "exited with code 129 (128 + SIGHUP)"),
        (134, "exited with code 134 (128 + SIGABRT)"),
        (-signal.SIGKILL, "was killed (SIGKILL)"),
        (-signal.SIGSEGV, "was killed (SIGSEGV)"),
        (-signal.SIGTERM, "was killed (SIGTERM)"),
        (-signal.SIGRTMIN, "was killed (SIGRTMIN)"),
        (-(signal.SIGRTMIN + 1), f"was killed (signal {signal.SIGRTMIN + 1})"),
    ],
)
def test_every_exit_code_and_signal_in_words(code: int, words: str, tmp_path: Path) -> None:
    assert reason(tmp_path / "run", code) == f"rank 0 on node 0 {words}"


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("import os\nos.environ['NOT_THERE']\n", "exited with code 1: KeyError: 'NOT_THERE'"),
        ("def train(:\n", "exited with code 1: SyntaxError: invalid syntax"),
        (
            "import torch_from_mars\n",
            "exited with code 1: ModuleNotFoundError: No module named 'torch_from_mars'; "
            "`python` in the job file, or --set python=/path/to/python, names a Python that has it",
        ),
        ("raise SystemExit('no data')\n", "exited with code 1"),
        ("import sys\nprint('epoch 3')\nsys.exit(3)\n", "exited with code 3"),
        (
            "import argparse\nargparse.ArgumentParser(prog='train').parse_args(['--epoch=3'])\n",
            "exited with code 2: train: error: unrecognized arguments: --epoch=3",
        ),
        ("import os\nos.abort()\n", "was killed (SIGABRT)"),
        (
            "import os, traceback\ntry:\n  1 / 0\nexcept Exception:\n  traceback.print_exc()\nos.kill(os.getpid(), 9)\n",
            "was killed (SIGKILL)",
        ),
        (
            "import sys\nsys.stderr.write('[rank0]: Traceback (most recent call last):\\n"
            '[rank0]:   File "x", line 1\\n[rank0]: RuntimeError: NCCL\\n\')\nsys.exit(1)\n',
            "exited with code 1: RuntimeError: NCCL",
        ),
    ],
)
def test_the_exception_of_a_python_program(train: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(train)
    assert executed(tmp_path / "run", [sys.executable, "train.py"]) == f"rank 0 on node 0 {words}"


def test_a_run_tells_the_exception_of_its_python_program(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({}, **{"train.py": "import os\nos.environ['NOT_THERE']\n"}))
    assert view["reason"] == "rank 0 on node 0 exited with code 1: KeyError: 'NOT_THERE'"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"command": ["./odd.sh"]},
            "could not be started: `./odd.sh` does not exist, or the interpreter that its first line names",
        ),
        ({"command": "./text.txt"}, "exited with code 126: bash: line 1: ./text.txt: Permission denied"),
    ],
)
def test_a_program_that_cannot_be_started(
    fields: dict[str, Any], words: str, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    job = write_job({**fields, "nodes": 2}, **{"odd.sh": "#!/no/such/interpreter\n", "text.txt": "text\n"})
    (job.parent / "odd.sh").chmod(0o755)
    view = run_json(job)
    assert (view["exit"], view["state"]) == (1, "failed")
    assert view["reason"] in (f"rank 0 on node 0 {words}", f"rank 1 on node 1 {words}")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("no-such-program", "`no-such-program` was not found on its PATH"),
        ("./no-such-script.sh", "`./no-such-script.sh` does not exist, or the interpreter that its first line names"),
        ("./odd.sh", "`./odd.sh` does not exist, or the interpreter that its first line names"),
        ("./text.txt", "`./text.txt`: Permission denied"),
    ],
)
def test_why_a_program_cannot_be_started(program: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "odd.sh").write_text("#!/no/such/interpreter\n")
    (tmp_path / "odd.sh").chmod(0o755)
    (tmp_path / "text.txt").write_text("text\n")
    env = dict(os.environ)
    try:
        Processes(contained=False).start("rank-0", [program], env, str(tmp_path), str(tmp_path / "log"))
    except OSError as error:
        why = why_not_started(program, env, error)
    assert why == words
    failure = {"kind": "start", "process": "rank-0", "rank": 0, "node": 0, "code": 127, "message": why}
    assert sentence(Failure.from_json(failure)) == f"rank 0 on node 0 could not be started: {words}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program", "exited with code 127: bash: line 1: no-such-program: command not found"),
        ("./text.txt", "exited with code 126: bash: line 1: ./text.txt: Permission denied"),
        (
            "python3.1.4 train.py; c=$?; echo the end; exit $c",
            "exited with code 127: bash: line 1: python3.1.4: command not found",
        ),
        ("echo epoch 3; exit 127", "exited with code 127"),  # which the program chose itself
    ],
)
@pytest.mark.parametrize(("process", "who"), [("rank-0", "rank 0"), ("setup", "setup")])
def test_the_words_of_a_shell_that_could_not_run_a_program(
    command: str, words: str, process: str, who: str, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("text\n")
    assert executed(tmp_path / "run", ["bash", "-c", command], process) == f"{who} on node 0 {words}"


def test_the_words_of_the_shell_of_a_platform_that_found_no_program(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "python3.1.4 train.py", "compat": "apulis"}))
    assert view["reason"].startswith("main on node 0 exited with code 127: "), view["reason"]
    assert view["reason"].endswith("python3.1.4: command not found"), view["reason"]


def test_the_last_twenty_lines_of_the_rank_that_failed(run_json: RunJson, muster: Muster, write_job: WriteJob) -> None:
    command = "for i in $(seq 100); do echo rank $MUSTER_RANK line $i; done; test $MUSTER_RANK != 1 || exit 1; sleep 1000"
    view = run_json(write_job({"command": command, "per": "device", "devices": 2}))
    assert view["failure"]["tail"] == [f"rank 1 line {number}" for number in range(81, 101)]
    assert view["failure"]["log"] == view["attempts"][0]["ranks"][1]["log"]
    shown = muster("show", view["run"]).stdout
    assert "rank 1 line 81\n" in shown
    assert "rank 1 line 80\n" not in shown


@pytest.mark.conformance(not_on_hosts="its ranks meet in MUSTER_SHARED, which each host has for itself")
def test_the_rank_that_failed_first_is_named_not_the_ones_it_dragged_along(
    containment: str, run_json: RunJson, write_job: WriteJob, node_name: NodeName
) -> None:
    train = """
    import os, pathlib, signal, sys, time
    shared, rank = pathlib.Path(os.environ["MUSTER_SHARED"]), os.environ["MUSTER_RANK"]
    def drag(*_):
        raise ConnectionError("the others are gone")
    signal.signal(signal.SIGTERM, drag)
    (shared / rank).touch()
    while len(list(shared.iterdir())) < 4:
        time.sleep(0.01)
    if rank == "2":
        raise FloatingPointError("loss is not a number")
    time.sleep(1000)
    """
    view = run_json(write_job({"per": "device", "nodes": 2, "devices": 2}, **{"train.py": train}))
    assert view["reason"] == f"rank 2 on {node_name(1)} exited with code 1: FloatingPointError: loss is not a number"
    assert view["failure"]["others"] == []


def test_other_distinct_causes_are_told_each_once(run_json: RunJson, muster: Muster, write_job: WriteJob, home: Path) -> None:
    train = """
    import os, pathlib, signal, sys, time
    shared, rank = pathlib.Path(os.environ["MUSTER_SHARED"]), os.environ["MUSTER_RANK"]

    def until(condition):
        while not condition():
            time.sleep(0.005)

    def ended(file):
        return pathlib.Path("/proc", file.name, "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"

    (shared / str(os.getpid())).touch()
    until(lambda: len(list(shared.iterdir())) >= 4)
    ranks = [file for file in shared.iterdir() if file.name.isdigit()]
    if rank == "0":  # holds the agent until all have failed
        agent = os.getppid()
        os.kill(agent, signal.SIGSTOP)
        (shared / "go").touch()
        if os.fork() == 0:
            until(lambda: all(map(ended, ranks)))
            os.kill(agent, signal.SIGCONT)
            os._exit(0)
        sys.exit(1)
    until(lambda: (shared / "go").exists())
    if rank in "12":
        raise ValueError("shape mismatch")
    os.kill(os.getpid(), signal.SIGSEGV)
    """
    home.mkdir()
    (home / "config.toml").write_text("[local]\nnamespaces = false\n")  # so that the ranks see each other and their agent
    view = run_json(write_job({"per": "device", "devices": 4}, **{"train.py": train}))
    causes = [view["reason"], *view["failure"]["others"]]
    assert sorted(cause.split(" on node 0 ")[1] for cause in causes) == [
        "exited with code 1",
        "exited with code 1: ValueError: shape mismatch",
        "was killed (SIGSEGV)",
    ]
    assert all(other in muster("show", view["run"]).stdout for other in view["failure"]["others"])


def test_a_failure_in_another_place_than_rank_0_is_shown_on_the_terminal_of_the_command(
    muster: Muster, write_job: WriteJob
) -> None:
    command = "test $MUSTER_RANK = 0 || { echo broken here; exit 5; }; sleep 1000"
    done = muster("run", write_job({"command": command, "per": "device", "devices": 2}))
    assert done.returncode == 1
    assert "[1] broken here\n" in done.stdout
    assert "rank 1 on node 0 exited with code 5" in done.stderr


def test_a_boot_file_that_is_not_in_the_snapshot_is_told_before_anything_starts(
    muster: Muster, write_job: WriteJob, home: Path
) -> None:
    job = write_job({}, **{"train.py": "print(1)\n", ".musterignore": "*.py\n"})
    done = muster("run", job)
    assert done.returncode == 2, done.stdout + done.stderr
    assert ".musterignore" in done.stderr
    assert not (home / "runs").exists()

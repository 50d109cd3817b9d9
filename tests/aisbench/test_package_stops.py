"""Stopping what a package runs: by its own script, by Ctrl-C and by a signal; never the run of somebody else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packages import changed
from ready_packages import installed as installed
from ready_packages import modelarts as modelarts

from conftest import Muster, until

V2 = ("#export MODELARTS_VERSION=V2", "export MODELARTS_VERSION=V2")


@pytest.fixture
def waiting(modelarts: Path) -> Path:
    """A package whose training says that it has begun and then takes for ever."""
    begin = 'def main():\n    print("begun", flush=True)\n    time.sleep(600)\n'
    changed(modelarts / "code/code/train.py", ("def main():\n", begin))
    return modelarts


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A package under way, whose ranks have begun."""
    words = words or (str(folder / "ais-bench-stubs"), "test")
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    try:
        until(lambda: any("begun" in path.read_text() for path in (folder / "log").glob("*job-*.log")))
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=60)


def script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    place = folder / "code/common/train_modelarts.py"
    return subprocess.run([sys.executable, str(place), *words], capture_output=True, text=True, timeout=60)


def stop(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return script(folder, "--action", "stop", *words)


def states(muster: Muster) -> dict[str, str]:
    return {run["run"]: run["state"] for run in json.loads(muster("ps", "--json", "--all").stdout)}


def test_stop_ends_the_newest_run(waiting: Path) -> None:
    with running(waiting) as child:
        done = stop(waiting)
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(
            r"jobname:aisbench-example jobid:job[0-9a-f]{8} preversionid:1 jobstatus:JOBSTAT_RUNNING "
            r"stop status:\{'is_success': True\}\n",
            done.stdout,
        )
        output, _ = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "task failed, status JOBSTAT_KILLED" in output
    again = stop(waiting)
    assert again.returncode == 0
    assert again.stdout.endswith("preversionid:1 no need stop\n")


@pytest.mark.long
def test_stop_of_the_newer_generation(waiting: Path) -> None:
    """Weakness 12: without an id the old tool stopped the job `None`."""
    changed(waiting / "code/config/config.sh", V2)
    with running(waiting) as child:
        assert child.stdout is not None
        wrong = stop(waiting, "--modelarts_version", "V2", "--job_id", "00000000-0000-4000-a000-000000000000")
        assert (wrong.returncode, wrong.stdout) == (1, "find no match version return\n")
        line = next(line for line in child.stdout if "create job sucess" in line)
        identity = re.search("job_id:([0-9a-f-]{36})", line)
        assert identity
        done = stop(waiting, "--modelarts_version", "V2", "--job_id", identity.group(1))
        assert (done.returncode, done.stdout) == (0, "job stop status: Terminated\n")


def test_stop_finds_nothing_where_nothing_ran(waiting: Path) -> None:
    """Weakness 12: that was a success."""
    done = stop(waiting)
    assert (done.returncode, done.stdout) == (1, "find no match version return\n")


@pytest.mark.long
def test_stop_spares_names_that_are_only_alike(waiting: Path, muster: Muster, tmp_path: Path) -> None:
    """Weakness 5: the search for `a` found `a-2`, and stopped it."""
    other = shutil.copytree(waiting, tmp_path / "other")
    changed(other / "code/config/modelarts_config.py", ('"aisbench-example"', '"aisbench-example-2"'))
    with running(other):
        assert stop(waiting).returncode == 1
        assert list(states(muster).values()) == ["running"]


@pytest.mark.long
def test_stop_spares_the_same_name_in_another_package(waiting: Path, muster: Muster, tmp_path: Path) -> None:
    """Weakness 5: a job of the same name may be somebody else's."""
    other = shutil.copytree(waiting, tmp_path / "other")
    with running(other):
        assert stop(waiting).returncode == 1
        assert list(states(muster).values()) == ["running"]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run(waiting: Path, muster: Muster, number: signal.Signals) -> None:
    """Weakness 2: a job went on when its client was interrupted."""
    with running(waiting) as child:
        child.send_signal(number)
        output, _ = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "BenchManager stop done" in output
    assert list(states(muster).values()) == ["stopped"]


@pytest.mark.long
def test_a_signal_for_benchmark_sh_stops_the_run(waiting: Path, muster: Muster) -> None:
    with running(waiting, "bash", str(waiting / "code/benchmark.sh")) as child:
        child.terminate()
        child.communicate(timeout=60)
    assert child.returncode == 2
    assert list(states(muster).values()) == ["stopped"]


@pytest.mark.long
def test_one_package_runs_once_at_a_time(waiting: Path) -> None:
    (waiting / "result/result.json").write_text('{"id": "of an earlier run"}')
    with running(waiting):
        assert not (waiting / "result/result.json").exists()
        second = script(waiting)
        assert second.returncode == 1
        assert "is running already; wait for it, or unpack the package once more" in second.stderr


@pytest.mark.long
def test_the_script_alone_runs_the_training(modelarts: Path, tmp_path: Path) -> None:
    code = shutil.copytree(modelarts / "code/code", tmp_path / "elsewhere")
    done = script(modelarts, "--local_code_path", str(code), "--modelarts_version", "V2", "--single_server_mode")
    assert done.returncode == 0, done.stderr
    assert "create job sucess. job_id:" in done.stdout
    assert re.search(r"report >> throughput_list:\[[0-9.]+\] average:[0-9.]+", done.stdout)
    assert f"code: {code}" in (modelarts / "tmp/job.yaml").read_text()


@pytest.mark.long
def test_the_script_fails_without_numbers(modelarts: Path) -> None:
    """Weakness 3: missing results were exit code 0 and a result that was OK."""
    changed(modelarts / "code/code/train.py", ("        report_modelarts(", "        print("))
    done = script(modelarts)
    assert done.returncode == 1
    assert "report result" not in done.stdout


def test_the_script_refuses_what_it_does_not_know(modelarts: Path) -> None:
    assert script(modelarts, "--action", "pause").returncode == 2
    assert os.listdir(modelarts / "log") == []

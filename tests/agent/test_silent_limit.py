"""`silent_limit`: a run that writes nothing for too long fails, and shows the stacks of its ranks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob, processes_with

RunJson = Callable[..., dict[str, Any]]

STUCK = """
import os, threading, time
def wait_for_gradients():
    while True:
        time.sleep(0.05)
def load_batches():
    time.sleep(1000)
if os.environ["MUSTER_RANK"] in "02":
    threading.Thread(target=load_batches, daemon=True).start()
print("step 1")
wait_for_gradients()
"""
GANG = {"per": "device", "nodes": 2, "devices": 2, "silent_limit": "3s", "grace": "1s"}


def path_without_spy() -> str:
    return os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not os.path.exists(f"{folder}/py-spy"))


@pytest.mark.long
def test_with_py_spy_the_stacks_of_all_ranks_are_written_beside_the_logs(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    spy = shutil.which("py-spy", path=f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    if spy is None:
        pytest.skip("py-spy is not installed")
    view = run_json(write_job(GANG, **{"train.py": STUCK}), PATH=f"{os.path.dirname(spy)}{os.pathsep}{os.environ['PATH']}")
    assert (view["exit"], view["state"], view["attempts"][0]["cause"]) == (1, "failed", "silent")
    assert view["reason"].startswith("nothing was written for 3s (silent_limit)")
    stacks = sorted(Path(view["dir"]).glob("attempts/1/nodes/*/stacks/*.txt"))
    assert [path.name.rsplit("-", 1)[0] for path in stacks] == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert all("wait_for_gradients (train.py" in path.read_text() for path in stacks)
    assert ["load_batches" in path.read_text() for path in stacks] == [True, False, True, False]
    assert processes_with(f"MUSTER_RUN={view['run']}") == []


@pytest.mark.conformance
def test_without_py_spy_the_stacks_are_in_the_logs(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job(GANG, **{"train.py": STUCK}), PATH=path_without_spy())
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "silent")
    for rank in view["attempts"][0]["ranks"]:
        said = Path(rank["log"]).read_text()
        assert said.startswith("step 1\nFatal Python error: Aborted")
        assert "in wait_for_gradients" in said
        assert ("in load_batches" in said) == (rank["rank"] in (0, 2))
        assert rank["state"] == "stopped"


def test_a_program_that_is_not_python_is_stopped_all_the_same(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "echo begun; sleep 1000", "silent_limit": "500ms"}))
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "silent")


@pytest.mark.long
@pytest.mark.parametrize(
    "progress",
    [
        "echo step",
        "date > $MUSTER_SHARED/checkpoint",
        "mkdir -p $MUSTER_SHARED/deep/down; date +%N > $MUSTER_SHARED/deep/down/checkpoint",
        "touch $MUSTER_RESULTS/alive",
    ],
)
def test_output_checkpoints_and_results_are_progress(progress: str, run_json: RunJson, write_job: WriteJob) -> None:
    command = f"if [ $MUSTER_NODE = 1 ]; then for i in $(seq 30); do {progress}; sleep 0.1; done; fi"
    view = run_json(write_job({"nodes": 2, "command": command, "silent_limit": "1500ms"}))
    assert view["state"] == "succeeded", view["reason"]


def test_a_setup_that_hangs_is_silence_too(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"setup": "echo begun; sleep 1000", "command": "true", "silent_limit": "500ms", "nodes": 2}))
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "silent")


def test_a_silent_run_is_tried_again_where_the_job_says_so(run_json: RunJson, write_job: WriteJob) -> None:
    command = "test $MUSTER_ATTEMPT = 2 || sleep 1000"
    view = run_json(write_job({"command": command, "silent_limit": "500ms", "retries": 1, "retry_on": ["silent"]}))
    assert [attempt["cause"] for attempt in view["attempts"]] == ["silent", "finished"]
    assert view["state"] == "succeeded"

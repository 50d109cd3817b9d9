"""The demo of the portal, without running it: its jobs are valid, and it refuses a directory that its runs could not see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from muster.job.load import load_text

DEMO = Path(__file__).parents[2] / "scripts/demo_portal"


@pytest.fixture(scope="module")
def jobs() -> ModuleType:
    spec = spec_from_file_location("demo_jobs", DEMO / "jobs.py")
    assert spec and spec.loader
    made = module_from_spec(spec)
    sys.modules["demo_jobs"] = made
    spec.loader.exec_module(made)
    return made


def test_jobs_of_the_demo_are_valid_and_their_programs_are_there(jobs: ModuleType) -> None:
    going = (jobs.STOPPED, jobs.RUNNING, jobs.PREEMPTED, jobs.URGENT, jobs.PAUSED, jobs.WAITING, jobs.web(), jobs.environment())
    found = [*jobs.ENDING, *going]
    assert len({job.name for job in found}) == len(found) >= 12
    for job in found:
        content = job.content(str(DEMO / "code"))
        loaded = load_text(json.dumps(content), [], DEMO, job.name).job
        assert not loaded.boot or (DEMO / "code" / loaded.boot).is_file()
        assert job.devices * (loaded.nodes or 1) <= jobs.DEVICES


def test_a_directory_that_accounts_have_for_themselves_is_refused() -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is one account")
    command = [sys.executable, str(DEMO / "demo.py"), "--folder", "/tmp/muster-demo-refused"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "lies in /tmp" in ended.stderr) == (2, True)
    assert not Path("/tmp/muster-demo-refused").exists()

"""How people name runs: ids, beginnings of ids, and `last`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from going import going, only_run

from conftest import Muster, WriteJob


@pytest.mark.parametrize("name", ["nothing", "", "..", "../home", "last"])
def test_a_name_that_no_run_has_is_refused(muster: Muster, home: Path, name: str) -> None:
    done = muster("show", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no run is called `{name}`; there are none in {home}" in done.stderr


def test_a_beginning_is_enough_when_only_one_run_has_it(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true", "name": "alpha"}))
    muster("run", write_job({"command": "true", "name": "alpine"}))
    assert json.loads(muster("show", "alpi", "--json").stdout)["name"] == "alpine"
    done = muster("show", "alp")
    assert done.returncode == 2
    assert "`alp` could be 2 runs (alpha-" in done.stderr
    assert "write more of the id" in done.stderr


def test_a_whole_id_wins_over_longer_ones(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "true"}))
    run_id = only_run()
    shutil.copytree(home / "runs" / run_id, home / "runs" / f"{run_id}-20300101-000000-abcd")
    assert json.loads(muster("show", run_id, "--json").stdout)["run"] == run_id


def test_last_is_the_run_that_was_created_last(muster: Muster, write_job: WriteJob) -> None:
    """Also within one second, and when an earlier one still writes to its directory."""
    with going(muster, write_job({"command": "echo ready; sleep 1000", "name": "zebra"})) as first:
        second = muster("run", write_job({"command": "true", "name": "ant"}), "--detach").stdout.strip()
        muster("wait", second)
        muster("stop", first)
        assert json.loads(muster("show", "last", "--json").stdout)["run"] == second

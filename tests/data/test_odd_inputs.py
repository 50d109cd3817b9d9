"""An input with an object that can be no file: the run fails with its name, and everything else has been fetched."""

from __future__ import annotations

from pathlib import Path

from bad_networks import hostile_store

from conftest import WriteJob
from traces import RunJson


def test_an_odd_name_is_the_reason_and_the_others_are_there(run_json: RunJson, write_job: WriteJob) -> None:
    with hostile_store("p/a", "p/odd/../up.txt", "p/z") as endpoint:
        job = write_job({"command": ["true"], "inputs": {"data": "s3://bucket/p"}})
        view = run_json(job, MUSTER_STORAGE_ENDPOINT=endpoint)
    assert view["state"] == "failed"
    assert "s3://bucket/p/odd/../up.txt has a part `.` or `..` in its name" in view["reason"], view["reason"]
    fetched = [path.name for path in Path(view["dir"]).glob("attempts/1/nodes/0/inputs/data/*")]
    assert sorted(fetched) == ["a", "z"]

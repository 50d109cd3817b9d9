"""A job runs to its end and its run can be understood afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob

RunJson = Callable[..., dict[str, Any]]


@pytest.mark.conformance
def test_a_gang_of_ranks_succeeds(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": ["echo", "hello"], "per": "device", "nodes": 2, "devices": 2}))
    assert (view["exit"], view["state"]) == (0, "succeeded")
    assert [rank["state"] for rank in view["attempts"][0]["ranks"]] == ["succeeded"] * 4
    logs = sorted(Path(view["dir"]).glob("attempts/1/nodes/*/logs/rank-*.log"))
    assert [log.read_text() for log in logs] == ["hello\n"] * 4


def test_output_in_a_pipe_is_prefixed_with_the_rank(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "echo one; echo two", "per": "device", "devices": 2})
    lines = muster("run", job).stdout.splitlines()
    assert [line for line in lines if line.startswith("[0]")] == ["[0] one", "[0] two"]
    assert [line for line in lines if line.startswith("[1]")] == ["[1] one", "[1] two"]

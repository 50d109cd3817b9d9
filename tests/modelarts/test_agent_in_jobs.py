"""Jobs of ModelArts in which Muster's agent runs: engine, vendor SDK, a real server, and the record on its way back."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_scene import jobs_of, run_json, use, write
from modelarts_scene import Client, Scene, new_client, served
from modelarts_scene import collected as collected

from conftest import Muster, until

AGENT: dict[str, Any] = {"compat": None, "devices": 2, "nodes": 2}
STEPS = """import os, sys
from muster import record
rank = int(os.environ["RANK"])
print("rank", rank, "of", os.environ["WORLD_SIZE"], "local", os.environ["LOCAL_RANK"], flush=True)
print("attempt", os.environ["MUSTER_ATTEMPT"], "keys", [name for name in os.environ if "SECRET" in name], flush=True)
paths = dict(word[2:].split("=", 1) for word in sys.argv[1:])
print("data", open(os.path.join(paths["data_url"], "words.txt")).read(), "epochs", paths["epochs"], flush=True)
for step in range(400):
    print("step", step, flush=True)
record(throughput=10.0 * (rank + 1))
if rank == 0:
    record(accuracy=0.75)
    open(os.path.join(os.environ["train_url"], "model.txt"), "w").write("trained")
print("end", os.environ["LEVEL"], flush=True)
"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_UPLOAD_EVERY", "1")
        with served() as found:
            yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    return new_client(scene)


def test_a_run_in_a_job_is_recorded_like_any_other(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client, flavor="cpu.2")  # with two cards the service starts the boot file twice on each node
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("of this machine")
    job = write(
        tmp_path,
        STEPS,
        **AGENT,
        parameters={"epochs": "2"},
        env={"LEVEL": "3"},
        setup="export LEVEL=4",
        inputs={"data_url": str(tmp_path / "data")},
        outputs={"train_url": {"url": f"obs://{client.bucket}/out", "access": "env"}},
    )
    found = run_json(muster, home, job)
    assert (found["state"], found["exit"]) == ("succeeded", 0), (found, logs(found))
    assert [(one["process"], one["node"], one["state"]) for one in found["attempts"][0]["ranks"]] == [
        (f"rank-{rank}", rank // 2, "succeeded") for rank in range(4)
    ]
    for rank in range(4):
        log = muster("logs", found["run"], "--rank", rank).stdout.splitlines()
        assert log[:3] == [f"rank {rank} of 4 local {rank % 2}", "attempt 1 keys []", "data of this machine epochs 2"]
        assert log[3:-1] == [f"step {step}" for step in range(400)] and log[-1] == "end 4"
    assert (found["result"]["throughput"]["value"], found["result"]["accuracy"]["value"]) == (100.0, 0.75)
    assert client.get("out/model.txt") == b"trained"
    assert (Path(found["dir"]) / "attempts/1/nodes/0/outputs/train_url/model.txt").read_text() == "trained"
    assert (Path(found["dir"]) / "attempts/1/nodes/1/metrics.jsonl").exists()


def logs(found: dict[str, Any]) -> str:
    return "".join(f"\n{path}\n{path.read_text()}" for path in Path(found["dir"]).rglob("*.log"))

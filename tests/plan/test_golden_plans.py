"""What each node has to do, for every framework and kind of device, as golden files.

`golden_files.py` says how to write them anew.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_files import FOLDER, matches_golden
from worlds import PLACES, job, two_nodes

from muster.job import COMPATS, FRAMEWORKS, Data, Job
from muster.plan import build

DATA = {"inputs": {"data_url": Data("obs://set/cifar")}, "outputs": {"train_url": Data("obs://bucket/out")}}
V1 = {**DATA, "compat": "modelarts-v1", "code": "obs://bucket/app/", "log_url": "obs://bucket/log", "parameters": {"lr": "3"}}
V2 = {**V1, "compat": "modelarts-v2", "outputs": {"train_url": Data("obs://bucket/out", "env")}}
APULIS = {"compat": "apulis", "code": "/src/app", "framework": "command", "keep_alive": 3600.0}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "command-per-node-cpu": ("cpu", {"framework": "command", "command": "bash run.sh"}),
    "command-per-device-cpu": ("cpu", {"framework": "command", "per": "device"}),
    "command-per-node-nvidia": ("nvidia", {"framework": "command"}),
    "command-per-device-ascend": ("ascend", {"framework": "command", "per": "device"}),
    "pytorch-cpu": ("cpu", {"framework": "pytorch"}),
    "pytorch-nvidia": ("nvidia", {"framework": "pytorch"}),
    "pytorch-ascend": ("ascend", {"framework": "pytorch"}),
    "mindspore-cluster-cpu": ("cpu", {"framework": "mindspore"}),
    "mindspore-cluster-nvidia": ("nvidia", {"framework": "mindspore"}),
    "mindspore-cluster-ascend": ("ascend", {"framework": "mindspore", "rank_table": "none"}),
    "mindspore-lab-ascend": ("ascend", {"framework": "mindspore", "rank_table": "lab"}),
    "mindspore-pods-ascend": ("ascend", {"framework": "mindspore", "rank_table": "pods"}),
    "mindspore-1.0-ascend": ("ascend", {"framework": "mindspore"}),
    "mindspore-1.0-cpu": ("cpu", {"framework": "mindspore", "rank_table": "1.0"}),
    "paddle-cpu": ("cpu", {"framework": "paddle"}),
    "paddle-nvidia": ("nvidia", {"framework": "paddle"}),
    "paddle-ascend": ("ascend", {"framework": "paddle"}),
    "tensorflow-cpu": ("cpu", {"framework": "tensorflow"}),
    "tensorflow-nvidia": ("nvidia", {"framework": "tensorflow"}),
    "tensorflow-ascend": ("ascend", {"framework": "tensorflow"}),
    "tensorflow-ps-cpu": ("cpu", {"framework": "tensorflow", "ps": 2}),
    "tensorflow-ps-nvidia": ("nvidia", {"framework": "tensorflow", "ps": 1}),
    "horovod-nvidia": ("nvidia", {"framework": "horovod", "ssh": True, "secrets": ("WANDB_KEY",)}),
    "mpi-cpu": ("cpu", {"framework": "mpi", "ssh": True}),
    "modelarts-v1-mindspore-ascend": ("ascend", {**V1, "framework": "mindspore"}),
    "modelarts-v1-mindspore-cpu": ("cpu", {**V1, "framework": "mindspore"}),
    "modelarts-v1-command-cpu": ("cpu", {**V1, "framework": "command", "command": "bash /home/work/run_train.sh run.sh"}),
    "modelarts-v1-command-ascend": ("ascend", {**V1, "framework": "command", "command": "bash run.sh"}),
    "modelarts-v1-tensorflow-ps-cpu": ("cpu", {**V1, "framework": "tensorflow", "ps": 2}),
    "modelarts-v2-tensorflow-ps-cpu": ("cpu", {**V2, "framework": "tensorflow", "ps": 2}),
    "modelarts-v2-mindspore-ascend": ("ascend", {**V2, "framework": "mindspore"}),
    "modelarts-v2-pytorch-nvidia": ("nvidia", {**V2, "framework": "pytorch"}),
    "modelarts-v2-command-cpu": ("cpu", {**V2, "framework": "command", "command": ("bash", "run.sh")}),
    "apulis-command-nvidia": ("nvidia", {**APULIS, "command": "horovodrun -np 4 python train.py && sleep infinity"}),
    "apulis-command-ascend": ("ascend", {**APULIS, "command": "sudo -E bash -c './run_8p.sh && sleep infinity'"}),
    "apulis-mindspore-ascend": ("ascend", {**APULIS, "framework": "mindspore"}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_plan_of_every_node_is_as_written_down(case: str) -> None:
    kind, fields = CASES[case]
    asked: Job = job(**{"device": kind, **fields})
    world = two_nodes(asked, kind)
    plans = [build(asked, world, node.index, PLACES).to_json() for node in world.nodes]
    matches_golden(f"plan-{case}.json", json.dumps({"nodes": plans}, indent=2) + "\n")


def test_every_framework_has_golden_plans_and_none_is_left_over() -> None:
    assert {fields["framework"] for _, fields in CASES.values()} == set(FRAMEWORKS)
    assert {fields.get("compat", "") for _, fields in CASES.values()} == {"", *COMPATS}
    assert {file.stem for file in FOLDER.glob("plan-*")} == {f"plan-{case}" for case in CASES}

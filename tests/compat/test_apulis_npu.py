"""NPU jobs on Apulis: the command on every worker, and rank tables in the user's home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_devices import Npus

from behaviour import no_namespaces
from conftest import WriteJob
from traces import RunJson, told

pytestmark = [pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")]

LOOK = """
import json, os
folder = os.path.expanduser("~/.npu/" + os.environ["DLWS_JOB_ID"])
tables = {name: json.load(open(folder + "/" + name)) for name in sorted(os.listdir(folder))}
print(json.dumps({"env": dict(os.environ), "folder": folder, "tables": tables}))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Npus:
    return Npus(tmp_path / "machine", 0, 1, 2, 3)


def lab(view: dict[str, Any]) -> list[dict[str, Any]]:
    """The instances of the format "lab": one per device."""
    devices = [(node["address"], id) for node in view["attempts"][0]["nodes"] for id in node["devices"]]
    return [
        {"devices": [{"device_id": id, "device_ip": f"192.168.{id}.1"}], "rank_id": str(rank), "server_id": address}
        for rank, (address, id) in enumerate(devices)
    ]


@pytest.mark.parametrize("framework", ["command", "mindspore"])
def test_every_worker_runs_the_command_and_finds_the_tables(
    framework: str, run_json: RunJson, write_job: WriteJob, machine: Npus
) -> None:
    fields = {"compat": "apulis", "device": "ascend", "nodes": 2, "devices": 2, "framework": framework}
    if framework == "command":
        fields["command"] = "sudo -E bash -c 'python3 train.py && sleep infinity'"
    view = run_json(write_job(fields, **{"train.py": LOOK}), **machine.env)
    if framework == "command":  # the platform's words about sleeping come last
        logs = [Path(rank["log"]).read_text().splitlines() for rank in view["attempts"][0]["ranks"]]
        ranks = [json.loads(lines[0]) for lines in logs]
        assert view["state"] == "succeeded" and len(ranks) == 2, logs
    else:
        ranks = told(view)
        assert [rank["env"]["RANK_ID"] for rank in ranks] == ["0", "1", "2", "3"]
    ids = [node["devices"] for node in view["attempts"][0]["nodes"]]
    for number, rank in enumerate(ranks):
        node = number if framework == "command" else number // 2
        env, table = rank["env"], f"{rank['folder']}/hccl_ms.json"
        ips = [",".join(f"{id}:192.168.{id}.1" for id in own) for own in ids]
        assert (env["DLWS_IS_NPU_JOB"], env["DLWS_GPU_TYPE"]) == ("true", "huawei_npu_arm64")
        assert (env["VISIBLE_IDS"], env["NPU_IPS"]) == (",".join(ids[node]), ips[node])
        assert [env["DLWS_SD_worker0_NPU_IP_LIST"], env["DLWS_SD_worker1_NPU_IP_LIST"]] == ips
        assert env["RANK_TABLE_FILE"] == env["MINDSPORE_HCCL_CONFIG_PATH"] == table
        assert (env["RANK_SIZE"], env["DEVICE_NUM"]) == ("4", "2")
        assert env["DEVICE_ID"] == ids[node][0 if framework == "command" else number % 2]
        assert (env["SOC_VERSION"], env["JOB_ID"]) == ("Ascend910", view["run"])
        assert env["POD_NAME"] == f"{view['run']}-worker{node}"
        tables = rank["tables"]
        assert sorted(tables) == ["hccl_ms.json", "hccl_tf.json"]
        (group,) = tables["hccl_ms.json"]["group_list"]
        assert (tables["hccl_ms.json"]["deploy_mode"], group["instance_list"]) == ("lab", lab(view))
        (pods,) = tables["hccl_tf.json"]["group_list"]
        assert [pod["pod_name"] for pod in pods["instance_list"]] == [f"{view['run']}-worker{index}" for index in (0, 1)]
        assert {tables[name]["status"] for name in tables} == {"completed"}
    assert not Path.home().joinpath(".npu", view["run"]).exists()

"""Ascend jobs on both generations of ModelArts: one process per device, and the rank table where it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_devices import Npus

from behaviour import no_namespaces
from conftest import WriteJob
from traces import RunJson, said, told

pytestmark = [pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")]

# What a script of those platforms reads, per device.
NAMES = ("RANK_ID", "RANK_SIZE", "DEVICE_ID", "ASCEND_DEVICE_ID", "RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH", "JOB_ID")
LOOK = f"""
import json, os
platform = json.load(open("/user/config/jobstart_hccl.json"))
given = json.load(open(os.environ["RANK_TABLE_FILE"]))
names = {{name: os.environ.get(name) for name in {NAMES}}}
instance = os.environ.get("BATCH_TASK_CURRENT_INSTANCE")
print(json.dumps({{"platform": platform, "given": given, "names": names, "instance": instance}}))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Npus:
    return Npus(tmp_path / "machine", 0, 1, 2, 3)


def platform_table(view: dict[str, Any], pods: list[str]) -> dict[str, Any]:
    """Version 0.1, as section 5.3 of the platform's description shows it."""
    nodes = view["attempts"][0]["nodes"]
    instances = [
        {
            "devices": [{"device_id": id, "device_ip": f"192.168.{id}.1"} for id in node["devices"]],
            "pod_name": pod,
            "server_id": node["address"],
        }
        for node, pod in zip(nodes, pods, strict=True)
    ]
    group = {"device_count": "4", "group_name": "job-trainjob", "instance_count": "2", "instance_list": instances}
    return {"group_count": "1", "group_list": [group], "status": "completed"}


def current_table(view: dict[str, Any]) -> dict[str, Any]:
    """Version 1.0, of the same devices."""
    servers = []
    for index, node in enumerate(view["attempts"][0]["nodes"]):
        devices = [
            {"device_id": id, "device_ip": f"192.168.{id}.1", "rank_id": str(2 * index + local)}
            for local, id in enumerate(node["devices"])
        ]
        servers.append({"server_id": node["address"], "device": devices})
    return {"version": "1.0", "server_count": "2", "server_list": servers, "status": "completed"}


@pytest.mark.conformance(
    not_on_server="its devices are in the submitter's environment",
    not_on_hosts="its devices are in the submitter's environment",
)
@pytest.mark.parametrize("generation, place", [("v1", "/home/work"), ("v2", "/home/ma-user")])
def test_the_boot_file_runs_once_per_device_and_finds_its_tables(
    generation: str, place: str, run_json: RunJson, write_job: WriteJob, machine: Npus
) -> None:
    fields = {"name": "trainjob", "compat": f"modelarts-{generation}", "framework": "mindspore", "device": "ascend"}
    view = run_json(write_job({**fields, "nodes": 2, "devices": 2}, **{"train.py": LOOK}), **machine.env)
    ranks = told(view)
    assert len(ranks) == 4
    ids = [id for node in view["attempts"][0]["nodes"] for id in node["devices"]]
    assert sorted(ids) == ["0", "1", "2", "3"]
    pods = [rank["instance"] or "" for rank in ranks[::2]]
    if generation == "v2":
        pods = [instance["pod_name"] for instance in ranks[0]["platform"]["group_list"][0]["instance_list"]]
    assert [pod.partition("-")[2] for pod in pods] == ["job-trainjob-0", "job-trainjob-1"]
    for number, rank in enumerate(ranks):
        assert rank["platform"] == platform_table(view, pods)
        assert rank["given"] == current_table(view)
        names = rank["names"]
        assert (names["RANK_ID"], names["RANK_SIZE"]) == (str(number), "4")
        assert names["RANK_TABLE_FILE"] == names["MINDSPORE_HCCL_CONFIG_PATH"] == f"{place}/rank_table/jobstart_hccl.json"
        assert names["DEVICE_ID"] == names["ASCEND_DEVICE_ID"] == ids[number]
        assert names["JOB_ID"]


def test_a_command_of_the_older_generation_is_told_the_directory(run_json: RunJson, write_job: WriteJob, machine: Npus) -> None:
    look = 'ls "$RANK_TABLE_FILE"; echo "$RANK_TABLE_FILE"'
    fields = {"compat": "modelarts-v1", "device": "ascend", "devices": 2, "command": look}
    view = run_json(write_job(fields), **machine.env)
    assert said(view) == ["jobstart_hccl.json\n/user/config\n"]


def test_a_job_for_other_devices_has_no_table(run_json: RunJson, write_job: WriteJob) -> None:
    look = 'ls -A /user; echo "${RANK_TABLE_FILE-none}"'
    for generation in ("v1", "v2"):
        assert said(run_json(write_job({"compat": f"modelarts-{generation}", "command": look}))) == ["none\n"]


def test_a_table_can_be_had_without_the_devices(run_json: RunJson, write_job: WriteJob) -> None:
    read = "import json, os\nprint(json.dumps(list(json.load(open(os.environ['RANK_TABLE_FILE'])))))"
    fields = {"compat": "modelarts-v1", "framework": "mindspore", "rank_table": "lab", "devices": 2}
    assert [table[:3] for table in told(run_json(write_job(fields, **{"train.py": read})))] == [
        ["board_id", "chip_info", "deploy_mode"]
    ] * 2

"""A job as a request of ModelArts: everything that can be said there, in the fields that the vendor's SDK knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import huaweicloudsdkmodelarts.v1 as ma

from muster.engines.modelarts.node import request
from muster.engines.modelarts.node.request import Places
from muster.engines.modelarts.options import ModelArtsOptions, Volume
from muster.job import Job
from muster.job.data import Data

RUN = "steps-20260101-000000-abcd"
VOLUMES = (Volume("10.0.0.5:/data", "/mnt/data"), Volume("10.0.0.5:/out", "/mnt/out", "write"))
OPTIONS: dict[str, Any] = {
    "pool": "pool7c1",
    "flavor": "modelarts.pool.visual.xlarge",
    "engine": "7",
    "workspace": "w1",
    "store": "obs://bucket/muster",
    "volumes": VOLUMES,
    "priority": 2,
    "annotations": {"owner": "vision"},
}
FIELDS: dict[str, Any] = {
    "name": "steps",
    "code": "/home/ann/resnet",
    "nodes": 2,
    "parameters": {"epochs": "2"},
    "inputs": {"data_url": Data("obs://bucket/data"), "labels": Data("/home/ann/labels", "env")},
    "outputs": {"train_url": Data("obs://bucket/out")},
    "log_url": "obs://bucket/logs",
    "time_limit": 5400.0,
}


def made(api: str, options: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    given = ModelArtsOptions(api=api, **{**OPTIONS, **(options or {})})
    job = Job(**{**FIELDS, "modelarts": given, **fields})
    return request.body(job, RUN, 1, request.places(job, RUN, "c0de", {"labels": "da7a"}))


def unknown(data: Any, kind: str, path: str = "") -> Iterator[str]:
    """Fields of a body that the SDK's class of requests does not have."""
    if kind.startswith("list["):
        for one in data:
            yield from unknown(one, kind[5:-1], path)
    elif hasattr(ma, kind):
        types, names = getattr(ma, kind).openapi_types, getattr(ma, kind).attribute_map
        known = {said: types[own] for own, said in names.items()}
        for name, value in data.items():
            if name in known:
                yield from unknown(value, known[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"


def test_version_2_has_each_option_where_the_sdk_has_it() -> None:
    body = made("v2", boot="train.py")
    assert [*unknown(body, "Job")] == []
    assert body["metadata"] == {
        "name": f"{RUN}-1",
        "description": f"Muster run {RUN}, attempt 1",
        "workspace_id": "w1",
        "annotations": {"owner": "vision"},
    }
    assert body["spec"] == {
        "resource": {"flavor_id": "modelarts.pool.visual.xlarge", "node_count": 2, "pool_id": "pool7c1"},
        "log_export_path": {"obs_url": "/bucket/logs/"},
        "auto_stop": {"time_unit": "HOURS", "duration": 2},
        "schedule_policy": {"priority": 2},
        "volumes": [
            {"nfs": {"nfs_server_path": "10.0.0.5:/data", "local_path": "/mnt/data", "read_only": True}},
            {"nfs": {"nfs_server_path": "10.0.0.5:/out", "local_path": "/mnt/out", "read_only": False}},
        ],
    }
    code = "/bucket/muster/code/c0de/resnet/"
    algorithm = body["algorithm"]
    assert (algorithm["code_dir"], algorithm["boot_file"], algorithm["engine"]) == (code, code + "train.py", {"engine_id": "7"})
    assert [(one["name"], one["access_method"], one["remote"]["obs"]["obs_url"]) for one in algorithm["inputs"]] == [
        ("data_url", "parameter", "/bucket/data"),
        ("labels", "env", "/bucket/muster/data/da7a/labels"),
    ]
    assert algorithm["outputs"][0]["remote"] == {"obs": {"obs_url": "/bucket/out/"}}


def test_a_command_runs_in_an_image_with_its_variables() -> None:
    options = {"engine": "", "image": "lab/train:1"}
    body = made("v2", options, command=("python", "a b.py"), framework="command", env={"LEVEL": "3"})
    algorithm = body["algorithm"]
    assert [*unknown(body, "Job")] == [] and "boot_file" not in algorithm
    assert (algorithm["command"], algorithm["engine"]) == ("python 'a b.py'", {"image_url": "lab/train:1"})
    assert (algorithm["environments"], algorithm["parameters"]) == ({"LEVEL": "3"}, [{"name": "epochs", "value": "2"}])
    old = made("v1", options, command="train.sh", framework="command", env={"LEVEL": "3"})["config"]
    assert (old["user_command"], old["user_image_url"]) == ("train.sh", "lab/train:1")
    assert {"label": "LEVEL", "value": "3"} in old["parameter"] and "engine_id" not in old


def test_version_1_has_numbers_labels_and_shares() -> None:
    body = made("v1", {"flavor": "modelarts.vm.gpu.v100"}, boot="train.py")
    config = body["config"]
    assert (body["job_name"], body["workspace_id"]) == (f"{RUN}-1", "w1")
    assert (config["engine_id"], config["spec_id"], config["pool_id"]) == (7, "modelarts.vm.gpu.v100", "pool7c1")
    assert (config["data_url"], config["train_url"], config["log_url"]) == ("/bucket/data", "/bucket/out/", "/bucket/logs/")
    assert config["parameter"] == [
        {"label": "epochs", "value": "2"},
        {"label": "labels", "value": "s3://bucket/muster/data/da7a/labels"},
    ]
    assert config["volumes"][1] == {
        "nfs": {"id": "0", "src_path": "10.0.0.5:/out", "dest_path": "/mnt/out", "read_only": False}
    }


def test_what_is_not_given_is_not_sent() -> None:
    bare = Job(name="steps", boot="a.py", modelarts=ModelArtsOptions(api="v2", flavor="f", engine="e"))
    body = request.body(bare, RUN, 1, Places("obs://bucket/code/"))
    assert body["spec"] == {"resource": {"flavor_id": "f", "node_count": 1}}
    assert body["algorithm"] == {"code_dir": "/bucket/code/", "boot_file": "/bucket/code/a.py", "engine": {"engine_id": "e"}}

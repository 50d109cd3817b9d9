"""Version 1 of ModelArts' training API, as scripts without an SDK ask it: numbers for ids and states, versions of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from modelarts_scene import Client, Scene, new_client, served
from modelarts_scene import collected as collected

from conftest import until
from muster_server import NUMBERS

TRAIN = """import os, sys
import moxing as mox
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
print("label", given["label"], "data", mox.file.read(given["data_url"] + "number.txt"), flush=True)
mox.file.write(given["train_url"] + "model.txt", "trained")
"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    made = new_client(scene)
    made.put("data/number.txt", "21")
    return made


def ask(client: Client, method: str, path: str, **words: Any) -> dict[str, Any]:
    with client.scene.server.http() as http:
        headers = {"X-Auth-Token": client.token}
        found: dict[str, Any] = http.request(method, f"/v1/{client.project_id}{path}", headers=headers, **words).json()
        return found


def body(client: Client, program: str = TRAIN, **config: Any) -> dict[str, Any]:
    name = f"old-{next(NUMBERS)}"
    client.put(f"{name}/app/train.py", program)
    at = f"/{client.bucket}/{name}"
    own = {"app_url": f"{at}/app/", "boot_file_url": f"{at}/app/train.py", "train_url": f"{at}/out/"}
    given = {"worker_server_num": 1, "data_url": f"/{client.bucket}/data/", "engine_id": 1, "spec_id": 10001}
    parameter = [{"label": "label", "value": "kept"}]
    return {"job_name": name, "job_desc": "d", "config": {**own, **given, "parameter": parameter, **config}}


def create(client: Client, given: dict[str, Any]) -> dict[str, Any]:
    made = ask(client, "POST", "/training-jobs", json=given)
    assert made["is_success"], made
    return made


def ended(client: Client, made: dict[str, Any]) -> dict[str, Any]:
    path = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"

    def found() -> dict[str, Any] | None:
        shown = ask(client, "GET", path)
        return shown if shown["status"] in (0, 10, 11, 12, 14) else None

    shown: dict[str, Any] = until(found, 60)
    return shown


def test_a_job_has_versions_with_numbers_for_states(client: Client) -> None:
    given = {**body(client, newer={"x": [1]}), "workspace_id": "0"}
    made = create(client, given)
    assert (made["version_name"], made["status"] in (1, 7, 8), type(made["job_id"])) == ("V0001", True, int)
    first = ended(client, made)
    assert (first["status"], first["train_url"], first["parameter"]) == (
        10,
        given["config"]["train_url"],
        given["config"]["parameter"],
    )
    assert (first["engine_name"], first["engine_id"], first["workspace_id"], first["newer"]) == ("PyTorch", 1, "0", {"x": [1]})
    assert set(first["system_metric_list"]) == {"cpuUsage", "memUsage", "gpuUtil", "npuUtil"}
    assert client.get(f"{made['job_name']}/out/model.txt") == b"trained"
    path = f"/training-jobs/{made['job_id']}"
    version = f"{path}/versions/{made['version_id']}"
    assert ask(client, "GET", f"{version}/log/file-names")["log_file_list"] == [f"{made['job_name']}.0"]
    log = ask(client, "GET", f"{version}/aom-log", params={"log_file": f"{made['job_name']}.0"})
    assert "label kept data 21\n" in log["content"]
    config = {**given["config"], "pre_version_id": made["version_id"]}
    second = ask(client, "POST", f"{path}/versions", json={"config": config})
    assert (second["version_name"], second["job_id"]) == ("V0002", made["job_id"])
    ended(client, second)
    versions = ask(client, "GET", f"{path}/versions")
    assert [one["version_name"] for one in versions["versions"]] == ["V0002", "V0001"]
    listed = ask(client, "GET", "/training-jobs", params={"search_content": made["job_name"], "status": "10"})
    assert [(one["job_id"], one["version_id"], one["version_count"]) for one in listed["jobs"]] == [
        (made["job_id"], second["version_id"], 2)
    ]
    assert ask(client, "PUT", path, json={"job_desc": "other"})["is_success"]
    assert ask(client, "GET", version)["job_desc"] == "other"
    assert ask(client, "DELETE", version)["is_success"]
    assert len(ask(client, "GET", f"{path}/versions")["versions"]) == 1
    assert ask(client, "DELETE", path)["is_success"]
    assert ask(client, "GET", f"{path}/versions")["error_code"] == "ModelArts.2775"


def test_a_list_is_in_the_order_of_names(scene: Scene) -> None:
    """As the service's: scripts take the first job that a search finds for the one of that name."""
    user = new_client(scene)
    config = {"user_command": "true"}
    for name in ("same-2", "same"):
        create(user, {"job_name": name, "config": config})
    found = ask(user, "GET", "/training-jobs", params={"search_content": "same"})
    assert [one["job_name"] for one in found["jobs"]] == ["same", "same-2"]
    by_time = ask(user, "GET", "/training-jobs", params={"sortBy": "create_time"})
    assert [one["job_name"] for one in by_time["jobs"]] == ["same-2", "same"]


def test_a_train_url_is_used_by_one_running_job(client: Client) -> None:
    program = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
    given = body(client, program)
    made = create(client, given)
    other = body(client, program, train_url="obs:/" + given["config"]["train_url"].rstrip("/"))
    refused = ask(client, "POST", "/training-jobs", json=other)
    assert (refused["is_success"], refused["error_code"], "train_url" in refused["error_message"]) == (
        False,
        "ModelArts.0101",
        True,
    )
    path = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"
    listed = ask(client, "GET", "/training-jobs")
    assert listed["job_count_limit"] == listed["quotas"] - 1  # how many may be created yet
    assert ask(client, "POST", f"{path}/stop")["is_success"]
    assert ended(client, made)["status"] == 12
    again = create(client, other)
    assert ask(client, "DELETE", f"/training-jobs/{again['job_id']}")["is_success"]


def test_what_jobs_may_name_is_listed(client: Client) -> None:
    specs = ask(client, "GET", "/job/resource-specs", params={"job_type": "train"})
    assert 10001 in [one["spec_id"] for one in specs["specs"]]
    found = ask(client, "GET", "/job/ai-engines", params={"job_type": "train"})["engines"]
    assert (found[0]["engine_id"], found[0]["engine_name"]) == (1, "PyTorch")


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"engine_id": 99}, "ModelArts.2780"),
        ({"spec_id": 99}, "ModelArts.2781"),
        ({"dataset_id": "x"}, "ModelArts.0101"),
        ({"boot_file_url": "/elsewhere/x.py"}, "ModelArts.2758"),
        ({"worker_server_num": "many"}, "ModelArts.2788"),
    ],
)
def test_mistakes_are_refused(client: Client, config: dict[str, Any], code: str) -> None:
    refused = ask(client, "POST", "/training-jobs", json=body(client, **config))
    assert (refused["is_success"], refused["error_code"]) == (False, code), refused


def test_others_do_not_see_a_job(scene: Scene, client: Client) -> None:
    made = create(
        client,
        {
            **body(client),
            "config": {"app_url": "", "user_command": "echo $label", "parameter": [{"label": "label", "value": "x"}]},
        },
    )
    ended(client, made)
    other = new_client(scene)
    version = f"/training-jobs/{made['job_id']}/versions/{made['version_id']}"
    missing = f"/training-jobs/{made['job_id'] + 999}/versions/{made['version_id']}"
    for method, suffix in (("GET", ""), ("POST", "/stop"), ("DELETE", ""), ("GET", "/log/file-names")):
        hidden, nothing = (ask(other, method, path + suffix) for path in (version, missing))
        assert hidden == nothing and hidden["is_success"] is False
    assert ask(other, "GET", "/training-jobs")["jobs"] == []

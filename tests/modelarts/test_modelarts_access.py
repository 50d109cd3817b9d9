"""Who may use ModelArts' API: tokens of IAM, keys, users who must not see each other's jobs, and bodies meant to break it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import huaweicloudsdkmodelarts.v1 as ma
import pytest
from fastapi.routing import APIRoute
from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException
from huaweicloudsdkcore.region.region import Region
from modelarts_scene import Client, Scene, http_config, new_client, served
from modelarts_scene import collected as collected

from muster.server.modelarts import iam
from muster.server.modelarts.routes import ROUTERS
from muster_server import PASSWORD


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    return new_client(scene)


@pytest.fixture(scope="module")
def job_id(client: Client) -> str:
    """A job that nobody but its user may see."""
    found: str = client.wait(client.create(client.job("hidden")).metadata.id).metadata.id
    return found


def routes() -> list[tuple[str, str]]:
    found = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [
        (method, route.path) for route in found for method in sorted(route.methods or ()) if route.path != "/v3/auth/tokens"
    ]


def password_body(name: str, password: str, **scope: Any) -> dict[str, Any]:
    user = {"name": name, "password": password, "domain": {"name": "anything"}}
    return {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, **scope}}


def test_every_call_needs_a_signature_or_a_token(scene: Scene) -> None:
    known = {"project_id": "p-x", "training_job_id": "x", "task_id": "worker-0", "rest:path": "pools"}
    known.update({"job_id": "1", "version_id": "1"})
    with scene.server.http() as http:
        for method, template in routes():
            path = template
            for name, value in known.items():
                path = path.replace("{" + name + "}", value)
            for headers in ({}, {"X-Auth-Token": "mst_" + "A" * 43}, {"Authorization": "SDK-HMAC-SHA256 Access=x"}):
                answer = http.request(method, path, headers=headers)
                assert (answer.status_code, answer.json()["error_code"][-4:]) in [(401, "0301"), (401, "0401")], (path, headers)
                assert answer.headers["x-request-id"]


def test_iam_gives_tokens_for_passwords(scene: Scene, client: Client) -> None:
    with scene.server.http() as http:
        scope = {"scope": {"project": {"name": client.project}}}
        answer = http.post("/v3/auth/tokens", json=password_body(client.name, PASSWORD, **scope))
        assert answer.status_code == 201, answer.text
        token = answer.json()["token"]
        assert (token["user"]["name"], token["project"]["id"]) == (client.name, client.project_id)
        headers = {"X-Auth-Token": answer.headers["X-Subject-Token"]}
        assert http.get(f"/v2/{client.project_id}/training-job-engines", headers=headers).status_code == 200
        assert http.get(f"/v2/{client.project}/training-job-engines", headers=headers).status_code == 200  # by its name
        mine = http.get("/v3/projects", headers=headers).json()["projects"]
        assert [one["id"] for one in mine] == [client.project_id]
        for body in (password_body(client.name, "a wrong password"), password_body("nobody", PASSWORD)):
            wrong = http.post("/v3/auth/tokens", json=body)
            assert (wrong.status_code, wrong.json()["error"]["code"], wrong.json()["error"]["title"]) == (
                401,
                401,
                "Unauthorized",
            )


def test_passwords_are_not_guessed_here_either(scene: Scene) -> None:
    guessed = new_client(scene)
    with scene.server.http() as http:
        statuses = [http.post("/v3/auth/tokens", json=password_body(guessed.name, f"guess {n}")).status_code for n in range(11)]
        assert statuses == [401] * 10 + [429]
        last = http.post("/v3/auth/tokens", json=password_body(guessed.name, PASSWORD))
    assert last.status_code == 429 and int(last.headers["Retry-After"]) > 0


def test_clients_that_ask_for_a_token_each_time_run_out_of_none(scene: Scene) -> None:
    user = new_client(scene)
    with scene.server.session(user.name) as http:
        made = [http.post("/api/v1/tokens", json={"name": iam.NAME, "days": 1}).json()["secret"] for _ in range(iam.MOST + 1)]
    with scene.server.http() as http:
        assert http.post("/v3/auth/tokens", json=password_body(user.name, PASSWORD)).status_code == 201
        alive = [http.get("/v3/projects", headers={"X-Auth-Token": secret}).status_code for secret in made]
        assert http.get("/v3/projects", headers={"X-Auth-Token": user.token}).status_code == 200
    assert alive == [401, 401] + [200] * (iam.MOST - 1)


def test_the_sdk_finds_the_project_by_its_region(scene: Scene, client: Client) -> None:
    credentials = BasicCredentials(client.key, client.secret).with_iam_endpoint(scene.server.url)
    builder = ma.ModelArtsClient.new_builder().with_http_config(http_config(scene)).with_credentials(credentials)
    sdk = builder.with_region(Region("cn-north-4", scene.server.url)).build()
    assert sdk.show_training_job_engines(ma.ShowTrainingJobEnginesRequest()).total > 0


def test_a_client_without_a_project_is_told_what_is_missing(scene: Scene, client: Client) -> None:
    credentials = BasicCredentials(client.key, client.secret)
    builder = ma.ModelArtsClient.new_builder().with_http_config(http_config(scene)).with_credentials(credentials)
    with pytest.raises(ClientRequestException) as found:
        builder.with_endpoint(scene.server.url).build().show_training_job_engines(ma.ShowTrainingJobEnginesRequest())
    assert "sent no project id" in found.value.error_msg


def test_what_may_not_be_seen_answers_as_what_does_not_exist(scene: Scene, client: Client, job_id: str) -> None:
    other = new_client(scene)
    missing = "0" * 8 + job_id[8:]
    bodies = {"POST": {"action_type": "terminate"}, "PUT": {"description": "mine"}}
    paths = [path for method, path in routes() if "{training_job_id}" in path]
    asked = [(method, path) for method, path in routes() if path in paths]
    assert len(asked) >= 10
    with scene.server.http() as http:
        for method, template in asked:
            for project in (client.project_id, other.project_id):
                answers = []
                for job in (job_id, missing):
                    path = template.format(project_id=project, training_job_id=job, task_id="worker-0")
                    headers = {"X-Auth-Token": other.token}
                    answers.append(http.request(method, path, headers=headers, json=bodies.get(method)))
                assert answers[0].status_code in (400, 403) and answers[0].json() == answers[1].json(), template
        strange = http.get("/v2/p-000000000000/training-job-engines", headers={"X-Auth-Token": other.token})
        hidden = http.get(f"/v2/{client.project_id}/training-job-engines", headers={"X-Auth-Token": other.token})
    assert (strange.status_code, strange.json()) == (403, hidden.json())
    assert client.show(job_id).metadata.description is None or client.show(job_id).metadata.description == ""
    body = {"jobs": [{"metadata": {"id": job_id}}]}
    assert other.raw("POST", "/training-jobs/batch-delete", json=body).json()["error_code"] == "ModelArts.2775"
    listed = other.sdk.list_training_jobs(ma.ListTrainingJobsRequest(body=ma.JobSearches()))
    assert (listed.total, listed.items) == (0, [])


def test_others_of_a_project_see_a_job_and_may_not_change_it(scene: Scene, client: Client, job_id: str) -> None:
    colleague = new_client(scene, client.project)
    assert colleague.show(job_id).metadata.user_name == client.name
    for method, path, body in (
        ("POST", f"/training-jobs/{job_id}/actions", {"action_type": "terminate"}),
        ("PUT", f"/training-jobs/{job_id}", {"description": "mine"}),
        ("DELETE", f"/training-jobs/{job_id}", None),
        ("POST", "/training-jobs/batch-delete", {"jobs": [{"metadata": {"id": job_id}}]}),
    ):
        answer = colleague.raw(method, path, json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (403, "APIGW.0302"), path
    assert client.show(job_id).status.phase == "Completed"


def test_a_token_that_may_read_creates_nothing(client: Client) -> None:
    reading = client.scene.server.token(client.name, "read")
    body = {"metadata": {"name": "never"}, "algorithm": {"command": "echo"}}
    answer = client.raw("POST", "/training-jobs", json=body, headers={"X-Auth-Token": reading})
    assert (answer.status_code, answer.json()["error_code"]) == (403, "APIGW.0302")
    assert client.raw("GET", "/training-job-engines", headers={"X-Auth-Token": reading}).status_code == 200


DEEP = "[" * 100_000 + "]" * 100_000
GOOD: dict[str, Any] = {
    "kind": "job",
    "metadata": {"name": "hostile"},
    "algorithm": {"command": "echo", "engine": {"image_url": "x"}},
}


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "",
        "null",
        "[]",
        "not json",
        '{"kind": NaN}',
        '{"metadata": {"name": "\\u0000"}}',
        '{"metadata": {"name": "\\ud800"}}',
        json.dumps({**GOOD, "metadata": {"name": ["a"]}}),
        json.dumps({**GOOD, "metadata": "x"}),
        json.dumps({**GOOD, "metadata": {"name": "x" * 65}}),
        json.dumps({**GOOD, "metadata": {"name": "../x"}}),
        json.dumps({**GOOD, "algorithm": []}),
        json.dumps({**GOOD, "algorithm": {"command": {"a": 1}}}),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "parameters": {"name": "x"}}}),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "parameters": [1]}}),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "environments": ["a"]}}),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "inputs": [{"name": "x", "remote": {"obs": {"obs_url": "/"}}}]}}),
        json.dumps(
            {
                **GOOD,
                "algorithm": {"command": "echo", "inputs": [{"name": "x", "remote": {"obs": {"obs_url": "file:///etc/"}}}]},
            }
        ),
        json.dumps(
            {**GOOD, "algorithm": {"command": "echo", "outputs": [{"name": "x", "remote": {"obs": {"obs_url": "/b/../c/"}}}]}}
        ),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "code_dir": "/etc/passwd/../.."}}),
        json.dumps({**GOOD, "spec": {"resource": {"node_count": 10**30}}}),
        json.dumps({**GOOD, "spec": {"resource": {"node_count": True}}}),
        json.dumps({**GOOD, "spec": {"resource": {"flavor_id": "modelarts.kat1." + "9" * 5000 + "xlarge"}}}),
        json.dumps({**GOOD, "spec": {"resource": {"pool_id": "nowhere"}}}),
        json.dumps({**GOOD, "algorithm": {"command": "echo", "environments": {f"V{n}": "" for n in range(2000)}}}),
        json.dumps({**GOOD, "junk": "x" * 300_000}),
    ],
    ids=range(28),
)
def test_hostile_bodies_get_an_error_and_create_nothing(client: Client, body: str) -> None:
    answer = client.raw("POST", "/training-jobs", content=body.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413), answer.text
    said = answer.json()
    assert said["error_code"].startswith("ModelArts.") and said["error_msg"]
    for other in ("/training-job-searches", "/training-jobs/batch-delete"):
        found = client.raw("POST", other, content=body.encode(), headers={"Content-Type": "application/json"})
        assert found.status_code in (200, 400, 413), found.text
    with client.scene.server.http(client.token) as http:
        assert [run["name"] for run in http.get("/api/v1/runs").json()["items"]] in ([], ["hidden"])
    assert not client.scene.server.entries("a request failed")


def test_what_nobody_knows_is_kept_and_yaml_is_no_way_in(client: Client) -> None:
    command = "echo kept; # \u2028devices: 4000 \x85 ü 😀"
    body = {
        **GOOD,
        "metadata": {"name": "keeps", "annotations": {"a": "b"}},
        "algorithm": {"command": command},
        "newer": {"x": [1]},
    }
    made = client.raw("POST", "/training-jobs", json=body)
    assert made.status_code == 201, made.text
    job_id = made.json()["metadata"]["id"]
    assert client.wait(job_id).status.phase == "Completed"
    shown = client.raw("GET", f"/training-jobs/{job_id}").json()
    assert (shown["newer"], shown["metadata"]["annotations"], shown["algorithm"]["command"]) == (
        {"x": [1]},
        {"a": "b"},
        command,
    )
    assert client.raw("DELETE", f"/training-jobs/{job_id}").status_code == 202

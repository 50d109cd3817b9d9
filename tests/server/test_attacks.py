"""The attack list: every route of the OpenAPI document, asked by everybody about things of somebody else.

A route that is not in one of the tables fails the test: whoever adds one writes down here what it answers to whom.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import insert, update

from muster.launch.start import snapshot
from muster.server.core import app
from muster.server.core.accounts import users
from muster.server.core.tables import buckets, tokens
from muster.server.pages import assets, password
from muster.server.pages import login as login_page
from muster.server.results.tables import results
from muster_server import NUMBERS, PASSWORD, Administered, MusterServer

# No login, and credentials that have ended: all of these get 401 wherever a login is needed.
ENDED = ("nobody", "wrong", "disabled", "expired", "revoked")
# A user who has nothing to do with what is asked about, users with a role in the project, an administrator's token that
# may only read, and an administrator.
ROLES = ("stranger", "viewer", "member", "manager", "reading administrator", "administrator")

OPEN = {
    "POST /api/v1/login": 401,  # with a wrong password
    "POST /api/v1/set-password": 404,  # with a link that is none
    "GET /healthz": 200,
    "GET /metrics": 200,  # from this machine
}
ANSWERS: dict[str, tuple[int, int, int, int, int, int]] = {
    "POST /api/v1/logout": (400, 400, 400, 400, 400, 400),  # tokens have no session
    "GET /api/v1/me": (200, 200, 200, 200, 200, 200),
    "POST /api/v1/me/password": (204, 204, 204, 204, 403, 204),
    "GET /api/v1/users": (403, 403, 403, 403, 200, 200),
    "POST /api/v1/users": (403, 403, 403, 403, 403, 201),
    "GET /api/v1/users/{user}": (404, 404, 404, 404, 200, 200),
    "PATCH /api/v1/users/{user}": (404, 404, 404, 404, 403, 200),
    "POST /api/v1/users/{user}/password-link": (404, 404, 404, 404, 403, 201),
    "GET /api/v1/tokens": (404, 404, 404, 404, 200, 200),  # those of the victim
    "POST /api/v1/tokens": (201, 201, 201, 201, 403, 201),
    "DELETE /api/v1/tokens/{token}": (404, 404, 404, 404, 403, 204),
    "GET /api/v1/keys": (404, 404, 404, 404, 200, 200),  # those of the victim
    "POST /api/v1/keys": (201, 201, 201, 201, 403, 201),
    "DELETE /api/v1/keys/{key}": (404, 404, 404, 404, 403, 204),
    "GET /api/v1/buckets": (200, 200, 200, 200, 200, 200),
    "GET /api/v1/buckets/{bucket}": (404, 200, 200, 200, 200, 200),
    "PATCH /api/v1/buckets/{bucket}": (404, 403, 403, 403, 403, 200),  # its quota
    "GET /api/v1/buckets/{bucket}/prefixes": (404, 200, 200, 200, 200, 200),
    "PUT /api/v1/buckets/{bucket}/prefixes/{project}": (404, 403, 403, 200, 403, 200),
    "DELETE /api/v1/buckets/{bucket}/prefixes/{project}": (404, 403, 403, 404, 403, 404),  # it has none
    "GET /api/v1/projects": (200, 200, 200, 200, 200, 200),
    "POST /api/v1/projects": (403, 403, 403, 403, 403, 201),
    "GET /api/v1/projects/{project}": (404, 200, 200, 200, 200, 200),
    "PATCH /api/v1/projects/{project}": (404, 403, 403, 200, 403, 200),
    "DELETE /api/v1/projects/{project}": (404, 403, 403, 403, 403, 204),
    "GET /api/v1/projects/{project}/members": (404, 200, 200, 200, 200, 200),
    "PUT /api/v1/projects/{project}/members/{user}": (404, 403, 403, 200, 403, 200),
    "DELETE /api/v1/projects/{project}/members/{user}": (404, 403, 403, 204, 403, 204),
    "POST /api/v1/code": (200, 200, 200, 200, 403, 200),
    "PUT /api/v1/code/{code}": (404, 404, 404, 404, 403, 404),  # that of the victim
    "POST /api/v1/runs": (404, 403, 201, 201, 403, 201),
    "POST /api/v1/runs/check": (404, 403, 200, 200, 403, 200),
    "GET /api/v1/runs": (200, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/wait": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/logs": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/log": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/runs/{run}/follow": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/record": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/search": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/series": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/files": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/file": (404, 200, 200, 200, 200, 200),
    "GET /api/v1/runs/{run}/events": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/runs/{run}/rerun": (404, 403, 201, 201, 403, 201),
    "POST /api/v1/runs/{run}/stop": (404, 403, 403, 200, 403, 200),
    "POST /api/v1/runs/{run}/exec": (404, 403, 403, 409, 403, 409),  # it has ended
    "POST /api/v1/runs/{run}/exec/{session}": (404, 403, 403, 404, 403, 404),
    "GET /api/v1/runs/{run}/endpoints": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/runs/{run}/endpoints/{endpoint}/ticket": (404, 403, 403, 404, 403, 404),  # its job names none
    "POST /api/v1/runs/{run}/login": (404, 403, 403, 404, 403, 404),
    "DELETE /api/v1/runs/{run}": (404, 403, 403, 204, 403, 204),
    "GET /api/v1/queue": (200, 200, 200, 200, 200, 200),
    "PATCH /api/v1/runs/{run}": (404, 403, 403, 409, 403, 409),  # it has ended, here and below
    "POST /api/v1/runs/{run}/pause": (404, 403, 403, 409, 403, 409),
    "POST /api/v1/runs/{run}/resume": (404, 403, 403, 409, 403, 409),
    "POST /api/v1/runs/{run}/move": (404, 403, 403, 403, 403, 409),
    "GET /api/v1/projects/{project}/quotas": (404, 200, 200, 200, 200, 200),
    "PUT /api/v1/projects/{project}/quotas": (404, 403, 403, 403, 403, 200),  # of the whole project
    "GET /api/v1/pools": (200, 200, 200, 200, 200, 200),  # those that serve a project of the caller
    "GET /api/v1/pools/{pool}": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/pools/{pool}/drain": (404, 403, 403, 403, 403, 200),
    "DELETE /api/v1/pools/{pool}/drain": (404, 403, 403, 403, 403, 204),  # what the one before has drained
    "GET /api/v1/runs/{run}/origin": (404, 200, 200, 200, 200, 200),
    "PUT /api/v1/runs/{run}/pin": (404, 403, 403, 200, 403, 200),
    "DELETE /api/v1/runs/{run}/pin": (404, 403, 403, 204, 403, 204),
    "GET /api/v1/buckets/{bucket}/objects": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/runs/{run}/code": (404, 200, 200, 200, 403, 200),  # for a clone
    "POST /api/v1/templates/{template}/code": (404, 409, 409, 409, 403, 409),  # it has none
    "GET /api/v1/templates": (200, 200, 200, 200, 200, 200),
    "POST /api/v1/templates": (404, 403, 201, 201, 403, 201),  # of the project
    "GET /api/v1/templates/{template}": (404, 200, 200, 200, 200, 200),
    "PATCH /api/v1/templates/{template}": (404, 403, 200, 200, 403, 200),
    "DELETE /api/v1/templates/{template}": (404, 403, 204, 204, 403, 204),
    "GET /api/v1/projects/{project}/webhooks": (404, 403, 403, 200, 200, 200),
    "POST /api/v1/projects/{project}/webhooks": (404, 403, 403, 201, 403, 201),
    "DELETE /api/v1/projects/{project}/webhooks/{webhook}": (404, 403, 403, 204, 403, 204),
    "POST /api/v1/projects/{project}/webhooks/{webhook}/test": (404, 403, 403, 201, 403, 201),
    "GET /api/v1/projects/{project}/webhooks/{webhook}/deliveries": (404, 403, 403, 200, 200, 200),
    "GET /api/v1/projects/{project}/retention": (404, 200, 200, 200, 200, 200),
    "POST /api/v1/projects/{project}/retention/apply": (404, 403, 403, 200, 403, 200),
    "GET /api/v1/usage": (200, 200, 200, 200, 200, 200),
    "GET /api/v1/audit": (403, 403, 403, 403, 200, 200),
    "GET /api/v1/settings": (403, 403, 403, 403, 200, 200),
    "GET /api/plans": (200, 200, 200, 200, 200, 200),
    "POST /api/plans": (403, 403, 403, 403, 403, 201),
    "GET /api/plans/{test_id}": (200, 200, 200, 200, 200, 200),
    "DELETE /api/plans/{test_id}": (403, 403, 403, 403, 403, 204),
    "POST /api/uploads": (200, 200, 200, 200, 403, 200),
    "GET /api/uploads/{upload_id}": (404, 404, 404, 404, 403, 404),  # one of the victim
    "PATCH /api/uploads/{upload_id}": (404, 404, 404, 404, 403, 404),
    "POST /api/uploads/{upload_id}/finish": (404, 404, 404, 404, 403, 404),
    "GET /api/results": (200, 200, 200, 200, 200, 200),
    "GET /api/results.csv": (200, 200, 200, 200, 200, 200),
    "GET /api/ranking.csv": (200, 200, 200, 200, 200, 200),
    "GET /api/results/{number}": (200, 200, 200, 200, 200, 200),  # what was accepted is everybody's to read
    "GET /api/results/{number}/bundle": (200, 200, 200, 200, 200, 200),
}
# Paths that name nothing.
NOWHERE = {
    "user": "nowhere",
    "token": "t-nowhere",
    "key": "MKNOWHERE",
    "project": "nowhere",
    "test_id": "nowhere",
    "upload_id": "f" * 32,
    "number": "999999",
    "code": "0" * 32,
    "run": "nowhere",
    "session": "x",
    "endpoint": "nowhere",
    "bucket": "nowhere",
    "pool": "nowhere",
    "template": "nowhere",
    "webhook": "w-0",
}
ENDLESS = ("GET /api/v1/events",)  # a stream: test_server_runs.py asks who sees what there
BODIES: dict[str, dict[str, Any]] = {
    "POST /api/v1/login": {"name": "nobody", "password": "a wrong password"},
    "POST /api/v1/set-password": {"token": "x", "password": PASSWORD},
    "POST /api/v1/me/password": {"old": PASSWORD, "new": PASSWORD},
    "POST /api/v1/tokens": {"name": "new"},
    "POST /api/v1/keys": {"name": "new"},
    "PATCH /api/v1/users/{user}": {"disabled": True},
    "PATCH /api/v1/projects/{project}": {"defaults": {"nodes": 2}},
    "PUT /api/v1/projects/{project}/members/{user}": {"role": "viewer"},
    "PATCH /api/v1/buckets/{bucket}": {"quota": 1},
    "PUT /api/v1/buckets/{bucket}/prefixes/{project}": {"prefix": "teams/vision"},
    "POST /api/v1/code": {"entries": []},
    "POST /api/v1/runs/{run}/follow": {},
    "POST /api/v1/runs/{run}/rerun": {},
    "POST /api/v1/runs/{run}/exec": {"command": ["id"]},
    "POST /api/v1/runs/{run}/exec/{session}": {},
    "POST /api/v1/runs/{run}/stop": {},
    "PATCH /api/v1/runs/{run}": {"priority": 150},
    "POST /api/v1/runs/{run}/move": {},
    "PUT /api/v1/projects/{project}/quotas": {"kind": "cpu", "devices": 1},
    "POST /api/v1/pools/{pool}/drain": {},
    "PATCH /api/v1/templates/{template}": {"description": "changed"},
    "POST /api/v1/projects/{project}/webhooks": {"url": "http://hooks.invalid/x", "events": ["ended"]},
    "POST /api/plans": {"model": "resnet50_v1.5"},
    "POST /api/uploads": {"sha256": "a" * 64, "size": 1},
}
SUBMITTED = ("POST /api/v1/runs", "POST /api/v1/runs/check")
PROCESS = {"process": "rank-0"}
FILE = {"path": "attempts/1/nodes/0/logs/rank-0.log"}


@dataclass
class Scene:
    """Who asks, by the token that is shown; each question is about new things of a new victim."""

    server: MusterServer
    administrator: str  # a token
    admin: httpx.Client  # with it
    credentials: dict[str, str | None]
    people: dict[str, str]  # names of those who get a role in the project
    empty: str = snapshot.digest_of([])  # the code of a job that has no files
    kept: dict[str, dict[str, str]] = field(default_factory=dict)  # things that nobody changes, by what a path names

    def ask(self, route: str, who: str) -> httpx.Response:
        method, template = route.split(" ")
        path = template.format(**self.things_for(route, template, who)) if "{" in template else template
        headers = {"Upload-Offset": "0"} if method == "PATCH" else {}
        if route == "POST /api/v1/login":
            headers["Origin"] = self.server.url
        query = {"user": self.new_user()} if route in ("GET /api/v1/tokens", "GET /api/v1/keys") else None
        query = PROCESS if path.endswith("/log") else FILE if path.endswith("/file") else query
        body = BODIES.get(route)
        if route == "POST /api/v1/templates":
            body = self.template(self.new_project(self.new_user()))
        if route in SUBMITTED:
            body = self.job(self.new_project(self.new_user()))
        if route in ("POST /api/v1/users", "POST /api/v1/projects"):
            body = {"name": f"new{next(NUMBERS)}"}
        with self.server.http(self.credentials[who], headers) as http:
            return http.request(method, path, json=body, params=query)

    def things_for(self, route: str, template: str, who: str) -> dict[str, str]:
        """New things for a request that changes them, else the same for all requests of this kind."""
        changes = not route.startswith("GET ") and who in ROLES and ANSWERS[route][ROLES.index(who)] not in (403, 404)
        if changes:
            return self.things(template)
        parts = "".join(part for part in template.split("/") if part.startswith("{"))
        if parts not in self.kept:
            self.kept[parts] = self.things(template)
        return self.kept[parts]

    def things(self, template: str) -> dict[str, str]:
        """Makes what a path names: a user, with a token and a key, who is in a project with the others."""
        if "{test_id}" in template:
            return {"test_id": self.admin.post("/api/plans", json={"model": "bert"}).json()["test_id"]}
        owns = any(word in template for word in ("{token}", "{key}", "{code}", "{run}", "{upload_id}"))
        victim = self.new_user()
        if "{number}" in template:
            return {"number": str(self.new_result(victim))}
        if "{upload_id}" in template:
            return {"upload_id": self.new_upload(victim)}
        if "{pool}" in template:
            self.new_project(victim)
            return {"pool": "local"}
        made = {"user": victim, "token": "", "key": "", "project": "", "code": "", "run": "", "session": "x", "bucket": ""}
        made["endpoint"] = "web"
        if owns:
            with self.server.session(victim) as http:
                made["token"] = http.post("/api/v1/tokens", json={"name": "mine"}).json()["token"]["id"]
                made["key"] = http.post("/api/v1/keys", json={"name": "mine"}).json()["key"]["id"]
        if any(word in template for word in ("{project}", "{run}", "{bucket}", "{template}")):
            made["project"] = self.new_project(victim)
        if "{template}" in template:
            made["template"] = self.admin.post("/api/v1/templates", json=self.template(made["project"])).json()["id"]
        if "{webhook}" in template:
            sent = BODIES["POST /api/v1/projects/{project}/webhooks"]
            added = self.admin.post(f"/api/v1/projects/{made['project']}/webhooks", json=sent)
            made["webhook"] = added.json()["webhook"]["id"]
        if "{bucket}" in template:
            made["bucket"] = self.new_bucket(made["project"])
        if "{code}" in template or "{run}" in template:
            with self.server.session(victim) as http:
                made["code"] = http.post("/api/v1/code", json={"entries": [["folder", f"of {victim}"]]}).json()["code"]
                if "{run}" in template:
                    made["run"] = self.ended_run(http, made["project"])
        return made

    def template(self, project: str) -> dict[str, Any]:
        return {"name": f"template{next(NUMBERS)}", "job": "command: echo", "scope": "project", "project": project}

    def new_bucket(self, project: str) -> str:
        """A bucket of the project's, as the store would record it."""
        name = f"bucket{next(NUMBERS)}"
        found = self.admin.get(f"/api/v1/projects/{project}").json()["id"]
        with self.server.database() as opened, opened.begin() as connection:
            row = {"name": name, "owner": None, "project": found, "quota": None, "created": time.time()}
            connection.execute(insert(buckets).values(row))
        return name

    def job(self, project: str) -> dict[str, Any]:
        """A submission without code of the caller's: the project's own URL is not looked at before the start."""
        return {"job": "command: echo hello", "code": self.empty, "project": project}

    def ended_run(self, http: httpx.Client, project: str) -> str:
        assert http.post("/api/v1/code", json={"entries": []}).json()["code"] == self.empty
        made = http.post("/api/v1/runs", json=self.job(project))
        assert made.status_code == 201, made.text
        run = str(made.json()["run"])
        assert http.get(f"/api/v1/runs/{run}/wait", params={"seconds": 60}).json()["state"] == "succeeded"
        return run

    def new_user(self) -> str:
        name = f"victim{next(NUMBERS)}"
        self.server.make_user(self.administrator, name)
        return name

    def new_upload(self, victim: str) -> str:
        with self.server.http(self.server.token(victim)) as http:
            return str(http.post("/api/uploads", json={"sha256": "b" * 64, "size": 9}).json()["id"])

    def new_result(self, victim: str) -> int:
        content = f"bundle {next(NUMBERS)}".encode()
        sha256 = hashlib.sha256(content).hexdigest()
        (self.server.data / "bundles" / f"{sha256}.tar.gz").write_bytes(content)
        with self.server.database() as opened, opened.begin() as connection:
            user = users.get(connection, victim).id
            texts = dict.fromkeys(("model", "mode", "division", "scenario", "object_type", "name", "metric", "unit"), "x")
            row = {**texts, "better": "higher", "hardware": "", "signature": "none", "result": "{}", "passed": True}
            values = {**row, "bench": sha256[:9], "sha256": sha256, "size": len(content), "user": user, "received": 1.0}
            made = connection.execute(insert(results).values(values)).inserted_primary_key
        assert made
        return int(made[0])

    def new_project(self, victim: str) -> str:
        name = f"lab{next(NUMBERS)}"
        assert self.admin.post("/api/v1/projects", json={"name": name}).status_code == 201
        for role, user in (("member", victim), *self.people.items()):
            assert self.admin.put(f"/api/v1/projects/{name}/members/{user}", json={"role": role}).status_code == 200
        return name


@pytest.fixture
def scene(administered: Administered) -> Iterator[Scene]:
    server, number = administered.server, next(NUMBERS)
    people = {role: f"{role}-{number}" for role in ("stranger", "viewer", "member", "manager")}
    for name in (*people.values(), f"disabled-{number}", f"ended-{number}"):
        server.make_user(administered.administrator, name)
    credentials: dict[str, str | None] = {"nobody": None, "wrong": "mst_" + "A" * 43}
    credentials.update({role: server.token(name) for role, name in people.items()})
    credentials["reading administrator"] = server.token("admin", "read")
    credentials["administrator"] = server.token("admin")
    credentials.update({kind: server.token(f"ended-{number}") for kind in ("expired", "revoked")})
    credentials["disabled"] = server.token(f"disabled-{number}")
    with server.http(administered.administrator) as admin:
        admin.patch(f"/api/v1/users/disabled-{number}", json={"disabled": True})
        expired, revoked = admin.get("/api/v1/tokens", params={"user": f"ended-{number}"}).json()["items"]
        admin.delete(f"/api/v1/tokens/{revoked['id']}")
        with server.database() as opened, opened.begin() as connection:
            connection.execute(update(tokens).where(tokens.c.id == expired["id"]).values(expires=time.time() - 1))
        yield Scene(
            server,
            administered.administrator,
            admin,
            credentials,
            {role: name for role, name in people.items() if role != "stranger"},
        )


def routes(server: MusterServer) -> list[str]:
    with server.http() as http:
        document = http.get("/openapi.json").json()
    return [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]


def test_every_route_is_in_a_table(administered: Administered) -> None:
    assert sorted(routes(administered.server)) == sorted([*OPEN, *ANSWERS, *ENDLESS])


@pytest.mark.long
@pytest.mark.timeout(900)  # each asks all routes, about things that are made for the question
def test_without_a_valid_credential_every_route_answers_the_same(scene: Scene) -> None:
    for route in ANSWERS:
        answers = [scene.ask(route, who) for who in ENDED]
        assert [answer.status_code for answer in answers] == [401] * len(ENDED), route
        assert len({answer.text for answer in answers[1:]}) == 1, route  # how a token ended is not told
    for route, status in OPEN.items():
        assert scene.ask(route, "nobody").status_code == status, route


@pytest.mark.long
@pytest.mark.timeout(900)  # each asks all routes, about things that are made for the question
@pytest.mark.parametrize("who", ROLES)
def test_every_route_answers_each_role_as_it_is_written_down(scene: Scene, who: str) -> None:
    column = ROLES.index(who)
    found = {route: scene.ask(route, who).status_code for route in ANSWERS}
    assert found == {route: answers[column] for route, answers in ANSWERS.items()}


@pytest.mark.long
@pytest.mark.timeout(900)  # each asks all routes, about things that are made for the question
def test_what_may_not_be_seen_sounds_like_what_does_not_exist(scene: Scene) -> None:
    for route, (answer, *_) in ANSWERS.items():
        if answer != 404 or "{" not in route or "{code}" in route:
            continue
        hidden = scene.ask(route, "stranger")
        method, template = route.split(" ")
        with scene.server.http(scene.credentials["stranger"]) as http:
            path = template.format(**NOWHERE)
            headers = {"Upload-Offset": "0"} if method == "PATCH" else {}
            query = PROCESS if path.endswith("/log") else None
            missing = http.request(method, path, json=BODIES.get(route), params=query, headers=headers)
        assert (missing.status_code, missing.json()) == (404, hidden.json()), route


def test_a_session_without_its_token_changes_nothing_anywhere(scene: Scene) -> None:
    with scene.server.session("admin") as http:
        del http.headers["X-CSRF-Token"]
        for route in ANSWERS:
            method, template = route.split(" ")
            if method == "GET":
                continue
            answer = http.request(method, template.format(**NOWHERE), json=BODIES.get(route, {"name": "x"}))
            of_tester = not template.startswith("/api/v1/")  # which takes no session for a change at all
            assert answer.status_code == (401 if of_tester else 403), route
            assert of_tester or "X-CSRF-Token" in answer.json()["reason"], route


@pytest.mark.long
@pytest.mark.timeout(900)  # each asks all routes, about things that are made for the question
def test_a_session_of_a_user_who_was_disabled_meanwhile_is_refused_everywhere(scene: Scene) -> None:
    name = scene.new_user()
    with scene.server.session(name) as http:
        assert scene.admin.patch(f"/api/v1/users/{name}", json={"disabled": True}).status_code == 200
        for route in ANSWERS:
            method, template = route.split(" ")
            path = template.format(**NOWHERE)
            assert http.request(method, path, json=BODIES.get(route, {"name": "x"})).status_code == 401, route


# Pages are no part of the OpenAPI document: what GET answers to nobody, a stranger, the owner, and a user who was disabled.
LOGIN = 303  # to the page on which one logs in
PUBLIC = ("/login", "/set-password", "/assets/{version}/{name:path}")
OF_EVERYBODY = (
    "/",
    "/jobs",
    "/submit",
    "/results",
    "/ranking",
    "/refused",
    "/plans",
    "/cluster",
    "/projects",
    "/account",
)
PAGES: dict[str, tuple[int, int, int, int]] = {
    **dict.fromkeys((*OF_EVERYBODY, "/cluster/usage.csv"), (LOGIN, 200, 200, LOGIN)),
    **dict.fromkeys(("/admin/users", "/admin/audit", "/admin/settings"), (LOGIN, 403, 403, LOGIN)),
    **{
        f"/jobs/{{run}}{part}": (LOGIN, 404, 200, LOGIN)
        for part in (
            "",
            "/console",
            "/metrics",
            "/files",
            "/endpoints",
            "/events",
            "/file",
            "/job.yaml",
            "/log",
            "/logs.zip",
            "/result",
            "/compare",
        )
    },
    "/results/{number}": (LOGIN, 200, 200, LOGIN),  # what was accepted is everybody's to read
    "/projects/{project}": (LOGIN, 404, 200, LOGIN),
    "/compare": (LOGIN, 400, 400, LOGIN),  # of results that are everybody's, and here of none
}
POSTED = {"/login": 401, "/logout": 303, "/set-password": 404}  # by nobody, from a page of the server's own; 403 from others
QUERIES = {"/log": PROCESS, "/file": FILE}


def page_routes() -> dict[str, set[str]]:
    """The methods of pages by their paths."""
    found: dict[str, set[str]] = {}
    for module in (*app.PAGES, login_page, password, assets):
        for route in module.router.routes:
            if isinstance(route, APIRoute) and not route.include_in_schema:
                found.setdefault(route.path, set()).update(route.methods or ())
    return found


def test_every_page_is_in_a_table() -> None:
    found = page_routes()
    assert sorted(path for path, methods in found.items() if "GET" in methods) == sorted([*PAGES, *PUBLIC])
    assert sorted(path for path, methods in found.items() if methods - {"GET", "HEAD"}) == sorted(POSTED)


def test_every_page_answers_nobody_a_stranger_its_owner_and_a_disabled_user(scene: Scene) -> None:
    server, names = scene.server, [scene.new_user() for _ in range(3)]
    project = scene.new_project(names[1])
    number = scene.new_result(names[1])
    with ExitStack() as stack:
        stranger, owner, disabled = (stack.enter_context(server.session(name)) for name in names)
        scene.admin.put(f"/api/v1/projects/{project}/members/{names[2]}", json={"role": "member"})
        run = scene.ended_run(owner, project)
        assert scene.admin.patch(f"/api/v1/users/{names[2]}", json={"disabled": True}).status_code == 200
        asking = [stack.enter_context(server.http()), stranger, owner, disabled]
        found = {}
        for path in PAGES:
            url = path.format(run=run, project=project, number=number)
            query = next((query for end, query in QUERIES.items() if path.endswith(end)), {})
            query = {"with": run} if path.endswith("{run}/compare") else query
            found[path] = tuple(http.get(url, params=query).status_code for http in asking)
        assert found == PAGES


def test_forms_of_pages_are_taken_from_the_servers_own_pages_alone(scene: Scene) -> None:
    form = {"name": "nobody", "password": "a wrong password", "token": "x"}
    for path, status in POSTED.items():
        with scene.server.http(headers={"Origin": scene.server.url}) as own, scene.server.http() as other:
            assert own.post(path, data=form).status_code == status, path
            assert other.post(path, data=form, headers={"Origin": "https://evil.example"}).status_code == 403, path

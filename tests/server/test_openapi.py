"""The OpenAPI document is true: what the server answers is what it says, to requests that fit it and to those that do not."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from run_client import any_client, run_client
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from conftest import until
from muster.server.core.app import protocol
from muster_server import Administered, MusterServer, server_folder
from postgres_server import PostgresServer, needed

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


RECORDS = "from muster import record\nfor step in range(3):\n    record.metric('loss', 3 - step, step=step)\nprint('done')\n"
OF_RUN = "/api/v1/runs/{run}"
QUERIES = {  # what routes of the run need
    f"{OF_RUN}/log": {"process": "rank-0"},
    f"{OF_RUN}/file": {"path": "attempts/1/nodes/0/logs/rank-0.log"},
}


@dataclass(frozen=True)
class Served:
    """A document, and a run that has ended on the server which it is of."""

    server: MusterServer
    document: schemathesis.BaseSchema
    headers: dict[str, str]  # with the token of an administrator
    run: str


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(request: pytest.FixtureRequest, _postgres_of_worker: PostgresServer | None) -> Iterator[Served]:
    """The document of a server of its own: the requests make and disable users as they like."""
    words = ["--database", needed(_postgres_of_worker).new_database()] if request.param == "postgresql" else []
    server = MusterServer(server_folder(), words).start()
    token = server.make_administrator()
    server.make_user(token, "ann")
    with run_client(server, token) as client:
        run = client.submit("boot: train.py", code=client.send_code(train__py=RECORDS))
        assert client.wait(run)["state"] == "succeeded"
    found = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    found.config.headers = {"Authorization": f"Bearer {token}"}
    yield Served(server, found, found.config.headers, run)
    with server.http(token) as http:  # clones of the run
        for one in http.get("/api/v1/runs", params={"limit": 500}).json()["items"]:
            http.post(f"/api/v1/runs/{one['run']}/stop", json={"now": True})
        until(lambda: all(one["phase"] == "ended" for one in http.get("/api/v1/runs", params={"limit": 500}).json()["items"]))
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)


SOME = settings(
    max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def check_answers(operation: Any, mode: GenerationMode, run: str | None) -> None:
    """Sends requests of one kind; those that fit the document go to a run that there is."""

    @SOME
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        if run is not None:
            case.path_parameters["run"] = run
        case.call_and_validate(checks=CHECKS)

    check()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_answer_is_one_that_the_document_names(served: Served) -> None:
    endless = served.document.exclude(path="/api/v1/events")  # an answer that has no end; tests of runs read it
    for found in endless.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        of_run = operation.path.startswith(OF_RUN) and (operation.method.upper(), operation.path) != ("DELETE", OF_RUN)
        check_answers(operation, GenerationMode.POSITIVE, served.run if of_run else None)
        with suppress(Unsatisfiable):  # a route without parameters has no wrong ones
            check_answers(operation, GenerationMode.NEGATIVE, None)
    answers = {(entry.get("route"), entry["status"]) for entry in served.server.entries("request")}
    assert {(route, 201) for route in ("/api/v1/users", "/api/v1/tokens", "/api/v1/keys", "/api/v1/projects")} <= answers
    assert ("/api/v1/audit", 200) in answers  # the requests were an administrator's


@pytest.mark.long
def test_every_route_that_shows_a_run_answers_as_the_document_says(served: Served) -> None:
    seen = set()
    for found in served.document.include(method="GET", path_regex="^/api/v1/runs/{run}").get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        query = QUERIES.get(operation.path, {})
        case = operation.Case(path_parameters={"run": served.run}, query=query, headers=served.headers)
        answer = case.call_and_validate(checks=CHECKS[:-1])
        assert answer.status_code == 200, (operation.path, answer.text)
        seen.add(operation.path)
    assert {OF_RUN, f"{OF_RUN}/wait", f"{OF_RUN}/logs", f"{OF_RUN}/series"} < seen


def undescribed(schema: dict[str, Any], schemas: dict[str, Any], value: Any) -> list[str]:
    """The keys of a value that its schema does not have."""
    if "$ref" in schema:
        return undescribed(schemas[schema["$ref"].rpartition("/")[2]], schemas, value)
    if "anyOf" in schema:
        return min((undescribed(one, schemas, value) for one in schema["anyOf"] if one != {"type": "null"}), key=len)
    if isinstance(value, list):
        return [key for one in value for key in undescribed(schema.get("items", {}), schemas, one)]
    if not isinstance(value, dict) or schema.get("additionalProperties") is True or not schema:
        return []
    named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    missing = [] if others else [key for key in value if key not in named]
    return missing + [key for name, one in value.items() for key in undescribed(named.get(name, others), schemas, one)]


def test_runs_have_no_keys_that_the_document_does_not_name(administered: Administered) -> None:
    document = json.loads(protocol())
    schemas = document["components"]["schemas"]
    with any_client(administered) as client:
        runs = [
            client.submit("boot: train.py", code=client.send_code(train__py=RECORDS)),
            client.submit("command: echo no luck; exit 3\nendpoints: {web: {port: 8000}}"),
            client.submit("command: sleep 1000\ngrace: 0s"),
        ]
        for run in runs[:2]:
            assert client.wait(run)["phase"] == "ended"
        shown = [client.get(run) for run in runs]
        listed = client.http.get("/api/v1/runs").json()
        client.http.post(f"/api/v1/runs/{runs[2]}/stop", json={"now": True})
        client.wait(runs[2])
    assert shown[0]["result"] and shown[1]["failure"] and shown[1]["endpoints"]
    for details in shown:
        assert undescribed(schemas["DetailedRun"], schemas, details) == []
    assert undescribed(schemas["RunPage"], schemas, listed) == []


def test_the_written_document_is_the_one_that_is_served() -> None:
    """`make docs` writes it."""
    written = Path(__file__).parents[2] / "docs" / "server-openapi.json"
    assert written.read_text(encoding="utf-8") == protocol()

"""The OpenAPI document is true: what the server answers is what it says, to requests that fit it and to those that do not."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
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

from muster.server.core.app import protocol
from muster_server import MusterServer, server_folder
from postgres_server import PostgresServer, needed

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def document(request: pytest.FixtureRequest, _postgres_of_worker: PostgresServer | None) -> Iterator[schemathesis.BaseSchema]:
    """The document of a server of its own: the requests make and disable users as they like."""
    words = ["--database", needed(_postgres_of_worker).new_database()] if request.param == "postgresql" else []
    server = MusterServer(server_folder(), words).start()
    token = server.make_administrator()
    server.make_user(token, "ann")
    found = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    found.config.headers = {"Authorization": f"Bearer {token}"}
    yield found
    answers = {(entry.get("route"), entry["status"]) for entry in server.entries("request")}
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)
    assert {(route, 201) for route in ("/api/v1/users", "/api/v1/tokens", "/api/v1/keys", "/api/v1/projects")} <= answers
    assert ("/api/v1/audit", 200) in answers  # the requests were an administrator's


SOME = settings(
    max_examples=15, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_answer_is_one_that_the_document_names(document: schemathesis.BaseSchema) -> None:
    endless = document.exclude(path="/api/v1/events")  # an answer that has no end; tests of runs read it
    for found in endless.get_all_operations():
        assert isinstance(found, Ok)
        for mode in MODES:
            cases = found.ok().as_strategy(generation_mode=mode)

            @SOME
            @given(case=cases)
            def answers_as_it_says(case: schemathesis.Case[Any]) -> None:
                case.call_and_validate(checks=CHECKS)

            try:
                answers_as_it_says()
            except Unsatisfiable:
                pass  # a route without parameters has no wrong ones


def test_the_written_document_is_the_one_that_is_served() -> None:
    """`make docs` writes it."""
    written = Path(__file__).parents[2] / "docs" / "server-openapi.json"
    assert written.read_text(encoding="utf-8") == protocol()

"""The fields of endpoints: what is read, what is refused, and that a recorded job reads the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from muster.job import Job
from muster.job.describe import schema
from muster.job.endpoints import Endpoint
from muster.job.load import load
from muster.job.written import written

GOOD: dict[str, Any] = {
    "command": "x",
    "nodes": 2,
    "endpoints": {"tensorboard": "logs", "jupyter": True, "web": 8000, "my-web": {"port": 9000, "node": 1}},
}


def test_endpoints_are_read_and_recorded() -> None:
    loaded = load(GOOD)
    assert loaded.problems == ()
    assert loaded.job.endpoints == {
        "tensorboard": Endpoint(logdir="logs"),
        "jupyter": Endpoint(),
        "web": Endpoint(port=8000),
        "my-web": Endpoint(port=9000, node=1),
    }
    assert Job.from_json(json.loads(json.dumps(loaded.job.to_json()))) == loaded.job
    assert load(written(loaded.job)).job.endpoints == load(loaded.job).job.endpoints == loaded.job.endpoints
    assert load(GOOD, ["endpoints.web=8001", "endpoints.jupyter=false"]).job.endpoints["web"].port == 8001
    jsonschema.validate(GOOD, schema())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"endpoints": {"Web": 1}}, "small letters"),
        ({"endpoints": {"a--b": 1}}, "small letters"),
        ({"endpoints": {"login": 1}}, "login: true"),
        ({"endpoints": {"web": 0}}, "too small"),
        ({"endpoints": {"web": 70000}}, "ports end at 65535"),
        ({"endpoints": {"web": {"node": 1}}}, "names no `port`"),
        ({"endpoints": {"tensorboard": 6006}}, "Muster starts it"),
        ({"endpoints": {"tensorboard": "obs://b/logs"}}, "names a URL"),
        ({"endpoints": {"jupyter": {"port": 8888}}}, "Muster chooses it"),
        ({"endpoints": {"web": {"port": 80, "node": 2}}, "nodes": 2}, "the nodes are 0 to 1"),
        ({"endpoints": {f"w{number}": 80 for number in range(17)}}, "can have 16"),
        ({"endpoints": ["web"]}, "a mapping of"),
        ({"idle_limit": "1h"}, "goes with `kind: environment`"),
        ({"kind": "environment"}, "waits for people"),
    ],
)
def test_what_cannot_be_meant_is_named(fields: dict[str, Any], words: str) -> None:
    problems = load({"command": "x", **fields}).problems
    assert any(words in f"{problem.message}; {problem.hint}" for problem in problems), problems


@pytest.mark.parametrize(
    "fields", [{"nodes": 2}, {"framework": "pytorch"}, {"parameters": {"a": "1"}}, {"inputs": {"data": "/data"}}]
)
def test_an_environment_is_one_node_without_a_program(fields: dict[str, Any]) -> None:
    assert load({"kind": "environment"}).problems == ()
    assert load({"kind": "environment", **fields}).problems != ()

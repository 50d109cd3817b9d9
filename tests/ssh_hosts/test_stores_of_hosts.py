"""Stores that hosts reach themselves, with what they need for it from the submitter's machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from authority import certify
from conftest import WriteJob, until
from host_machines import Machines
from s3_server import S3, serve

RunJson = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long

TRAIN = """
import os
import moxing as mox
with open(os.environ["data_url"] + "/word") as file:
    mox.file.write("s3://b/by-moxing-" + os.environ["MUSTER_NODE"], file.read())
"""


def test_certificates_of_a_store_travel_to_the_hosts(
    machines: Machines,
    on_hosts: Callable[..., None],
    run_json: RunJson,
    write_job: WriteJob,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file of the authority lies on the submitter's machine, where hosts do not see it."""
    on_hosts("h1", "h2")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    certify(tmp_path, machines.submitter)
    with (home / "config.toml").open("a") as file:
        file.write(f'[storage]\nca = "{tmp_path}/ca.pem"\n')
    buckets = tmp_path / "buckets"
    (buckets / "b/in").mkdir(parents=True)
    (buckets / "b/in/word").write_text("sesame")
    words = ["--cert", str(tmp_path / "server.pem"), "--key", str(tmp_path / "server.key")]
    server, endpoint = serve(buckets, tmp_path / "s3.log", *words, host=machines.submitter)
    inputs = {"data_url": {"url": "s3://b/in", "access": "env"}}
    try:
        job = write_job({"python": "python3", "nodes": 2, "inputs": inputs}, **{"train.py": TRAIN})
        view = run_json(job, **S3(endpoint, buckets).env)
    finally:
        server.kill()
        server.wait()
    assert view["state"] == "succeeded", view["reason"]
    assert [(buckets / f"b/by-moxing-{node}").read_text() for node in (0, 1)] == ["sesame", "sesame"]
    until(lambda: not machines.records("h1", view["run"]))

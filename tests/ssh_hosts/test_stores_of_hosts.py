"""Stores that hosts reach themselves, with what they need for it from the submitter's machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live, files_with

from authority import certify
from conftest import WriteJob, until
from host_machines import Machines
from s3_server import S3, SECRET, serve

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


WAITING = """
import os, time
print("up", flush=True)
while not os.path.exists("/root/go"):
    time.sleep(0.02)
open(os.environ["train_url"] + "/kept", "w").close()
"""


def test_keys_of_a_store_are_in_no_file_and_on_no_command_line(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    on_hosts("h1")
    buckets, go = tmp_path / "buckets", machines.home("h1") / "go"
    (buckets / "b").mkdir(parents=True)
    server, endpoint = serve(buckets, tmp_path / "s3.log", host=machines.submitter)
    outputs = {"train_url": {"url": "s3://b/out", "access": "env"}}
    job = write_job({"python": "python3", "outputs": outputs, "secrets": ["TOKEN"]}, **{"train.py": WAITING})
    try:
        with Live(command, job, TOKEN="word-of-the-user", **S3(endpoint, buckets).env) as live:
            live.until_running()
            for secret in (SECRET, "word-of-the-user"):
                assert files_with(machines.home("h1"), secret) == files_with(home, secret) == []
                assert not any(secret in Path(f"/proc/{pid}/cmdline").read_text() for pid in machines.pids("h1"))
                some = next(pid for pid in machines.pids("h1"))
                assert files_with(Path(f"/proc/{some}/root/tmp"), secret) == []
            go.touch()
            assert live.end()["state"] == "succeeded"
    finally:
        go.unlink(missing_ok=True)
        server.kill()
        server.wait()
    assert (buckets / "b/out/kept").exists()

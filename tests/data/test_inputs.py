"""Inputs: on every node before the program starts, checked before there is a run."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from s3_server import S3
from traces import RunJson, logs, put, stored, told

READ = """
import json, os, pathlib, sys
named = dict(word[2:].split("=", 1) for word in sys.argv[1:])
paths = {name: pathlib.Path(path) for name, path in {**named, "labels": os.environ["labels"]}.items() if name != "epochs"}
found = {name: {file.name: file.read_text() for file in path.glob("*")} for name, path in paths.items()}
print(json.dumps({"names": list(named), "near": named["near"], "found": found, "epochs": named["epochs"]}))
"""


@pytest.mark.conformance(not_on_server="it puts data into the submitter's store")
def test_inputs_lie_on_every_node_and_are_named_to_the_program(
    engine: str, containment: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    put(**{"cifar/1.bin": "one", "cifar/two words.bin": "two", "labels/names.txt": "cat"})
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("mine")
    inputs = {"data_url": "obs://b/cifar/", "labels": {"url": "s3://b/labels", "access": "env"}, "near": "../here"}
    job = write_job({"nodes": 2, "inputs": inputs, "parameters": {"epochs": "007"}}, **{"train.py": READ})
    view = run_json(job)
    for rank in told(view):
        assert rank["names"] == ["data_url", "near", "epochs"], "inputs first, in order, then parameters"
        assert (rank["near"] == str(tmp_path / "here")) == (engine != "ssh"), "a directory of this machine is passed as it is"
        assert rank["found"] == {
            "data_url": {"1.bin": "one", "two words.bin": "two"},
            "labels": {"names.txt": "cat"},
            "near": {"notes.txt": "mine"},
        }
        assert rank["epochs"] == "007"
    assert [line for log in logs(view, "inputs") for line in log.splitlines() if "obs://b/cifar" in line], "it is told"
    assert (tmp_path / "here" / "notes.txt").read_text() == "mine"


def test_a_file_behind_a_url_lies_in_the_directory_under_its_own_name(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"models/bert.ckpt": "weights"})
    train = """
    import json, os, sys
    path = sys.argv[1].split("=")[1]
    print(json.dumps([os.listdir(path), open(path + "/bert.ckpt").read()]))
    """
    job = write_job({"inputs": {"ckpt": "obs://b/models/bert.ckpt"}}, **{"train.py": train})
    assert told(run_json(job)) == [[["bert.ckpt"], "weights"]]
    assert told(run_json(job, "--set", "compat=modelarts-v2")) == [[["bert.ckpt"], "weights"]]


def test_a_file_of_this_machine_lies_there_on_the_platform_too(run_json: RunJson, write_job: WriteJob) -> None:
    train = "import json, os, sys\nprint(json.dumps([sys.argv[1], open(sys.argv[1].split('=')[1] + '/bert.ckpt').read()]))"
    job = write_job({"inputs": {"ckpt": "bert.ckpt"}, "compat": "modelarts-v2"}, **{"train.py": train, "bert.ckpt": "weights"})
    assert told(run_json(job)) == [["--ckpt=/home/ma-user/modelarts/inputs/ckpt_0", "weights"]]


LAYOUT = {"data_url": ["train/", "val/", "ms_bert_large.ckpt"]}


def check(muster: Muster, job: Path, **env: str) -> list[str]:
    """What `--check` finds wrong, as `field: message`."""
    done = muster("run", job, "--check", "--json", **env)
    problems = json.loads(done.stdout).get("problems", [])
    assert done.returncode == (2 if problems else 0), done.stderr
    return [f"{problem['field']}: {problem['message']}" for problem in problems]


def test_a_layout_is_checked_on_the_store_before_anything_exists(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "true", "inputs": {"data_url": "obs://b/bert"}, "requires": LAYOUT})
    put(**{"bert/train/1": "", "bert/val": "a file of that name", "bert/notes": ""})
    assert check(muster, job) == [
        "requires: wants `val/` in `data_url`, and obs://b/bert has none",
        "requires: wants `ms_bert_large.ckpt` in `data_url`, and obs://b/bert has none",
    ]
    done = muster("run", job)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{job}:" in done.stderr and "`muster ls obs://b/bert` shows what is there" in done.stderr
    assert not (home / "runs").exists()
    put(**{"bert2/train/1": "", "bert2/val/1": "", "bert2/ms_bert_large.ckpt": ""})
    job = write_job({"command": "true", "inputs": {"data_url": "obs://b/bert2/"}, "requires": LAYOUT})
    assert check(muster, job) == []
    assert muster("run", job, "--dry-run").returncode == 0
    assert not (home / "runs").exists()


def test_a_layout_is_checked_on_a_real_s3_server_and_on_this_machine(
    muster: Muster, write_job: WriteJob, s3: S3, tmp_path: Path
) -> None:
    bucket = s3.bucket()
    for name in ("train/1.bin", "ms_bert_large.ckpt"):
        path = s3.folder / bucket / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    job = write_job({"command": "true", "inputs": {"data_url": f"obs://{bucket}/set"}, "requires": LAYOUT})
    assert check(muster, job, **s3.env) == [f"requires: wants `val/` in `data_url`, and obs://{bucket}/set has none"]
    place = s3.folder / bucket / "set"
    job = write_job({"command": "true", "inputs": {"data_url": str(place)}, "requires": LAYOUT})
    assert check(muster, job) == [f"requires: wants `val/` in `data_url`, and {place} has none"]


def test_an_input_that_does_not_exist_is_told_before_anything_exists(muster: Muster, write_job: WriteJob, home: Path) -> None:
    inputs = {"data_url": "obs://nowhere/at/all", "near": "no/such/folder", "there": "."}
    job = write_job({"command": "true", "inputs": inputs, "requires": {"data_url": ["train/"]}})
    assert check(muster, job) == [
        "inputs.data_url: names obs://nowhere/at/all, which does not exist",
        f"inputs.near: names {job.parent}/no/such/folder, which does not exist",
    ]
    assert muster("run", job).returncode == 2
    assert not (home / "runs").exists()


def test_a_command_without_a_place_for_words_is_told(muster: Muster, write_job: WriteJob, home: Path) -> None:
    put(**{"set/x": ""})
    lines = "echo one\necho two"
    data = {"inputs": {"data_url": "obs://b/set"}, "outputs": {"train_url": "obs://b/out"}}
    found = check(muster, write_job({"command": lines, **data}))
    assert found == [f"{name}: have no place behind this command" for name in ("inputs", "outputs")]
    assert check(muster, write_job({"command": f'{lines} "$@"', **data})) == []
    variables = {kind: {name: {"url": url, "access": "env"} for name, url in given.items()} for kind, given in data.items()}
    assert check(muster, write_job({"command": lines, **variables})) == []


def test_a_store_that_cannot_be_reached_is_no_wrong_input(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "true", "inputs": {"data_url": "obs://b/set"}})
    done = muster("run", job, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9", MUSTER_STORAGE_TIMEOUT="1")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr and "127.0.0.1:9" in done.stderr
    assert not (home / "runs").exists()


def test_inputs_come_from_a_real_s3_server_whose_certificates_would_fill_an_environment(
    run_json: RunJson, write_job: WriteJob, s3: S3, tmp_path: Path
) -> None:
    known = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not known:
        pytest.skip("this machine trusts nobody")
    many = tmp_path / "many.pem"
    many.write_text(ssl.DER_cert_to_PEM_cert(known[0]) * 200)
    bucket = s3.bucket()
    (s3.folder / bucket / "one.txt").write_text("from S3")
    train = "import json, sys\nprint(json.dumps(open(sys.argv[1].split('=')[1] + '/one.txt').read()))"
    job = write_job({"nodes": 2, "inputs": {"data_url": f"obs://{bucket}/"}}, **{"train.py": train})
    assert told(run_json(job, **{**s3.env, "MUSTER_STORAGE_CA": str(many)})) == ["from S3", "from S3"]


class Grudging(BaseHTTPRequestHandler):
    """A store that shows what it has and does not give it away."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        for name, value in (("Content-Length", "4"), ("ETag", '"0"'), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")):
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def grudging() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Grudging) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_an_input_that_a_node_cannot_fetch_fails_the_run_and_says_which_node(
    run_json: RunJson, write_job: WriteJob, grudging: str
) -> None:
    again = {"retries": 1, "retry_on": ["exit"]}
    job = write_job({"nodes": 2, "command": "echo never", "inputs": {"data_url": "obs://b/set.bin"}, **again})
    keys = {"OBS_AK": "access-of-mine", "OBS_SK": "secret-of-mine"}
    view = run_json(job, MUSTER_STORAGE_ENDPOINT=grudging, **keys)
    assert (view["exit"], view["state"]) == (1, "failed")
    assert view["reason"].startswith(f"the inputs of node {view['failure']['node']} could not be fetched: obs://b/set.bin to /")
    assert len(view["attempts"]) == 1, "the cause is `input`, which this job does not try again"
    assert view["attempts"][0]["cause"] == "input"
    assert all(rank["state"] == "pending" for rank in view["attempts"][0]["ranks"])
    assert not any("secret-of-mine" in text for text in logs(view, "inputs")) and stored() == {}

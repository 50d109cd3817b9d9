"""The engine modelarts: a job file runs as a training job, and its run directory is that of other engines."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broken_line import (
    ANSWERED_500,
    CUT,
    CUT_WITHIN,
    LOST_429,
    LOST_500,
    LOST_CUT,
    NO_ANSWER,
    broken_line,
)
from engine_scene import jobs_of, run_json, use, write
from modelarts_scene import Client, Scene, new_client, served
from modelarts_scene import collected as collected

from conftest import Muster, until

STEPS = """import os, sys
print("arguments", [word for word in sys.argv if "epochs" in word], flush=True)
print("variable", os.environ["LEVEL"], flush=True)
folder = next(word for word in sys.argv if word.startswith("--train_url=")).partition("=")[2]
data = next(word for word in sys.argv if word.startswith("--data_url=")).partition("=")[2]
print("data", open(os.path.join(data, "words.txt")).read(), flush=True)
for step in range(1200):
    print("step", step, "fps:", 10 + step % 2, flush=True)
if os.environ["VC_TASK_INDEX"] == "0":
    open(os.path.join(folder, "model.txt"), "w").write("trained")
    open(os.path.join(folder, "accuracy.json"), "w").write("0.75")
print("end", end="", flush=True)
"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with served(config="runs = 1\n") as found:
        yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    return new_client(scene)


def test_a_job_runs_with_its_data_and_comes_back_whole(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("of this machine")
    job = write(
        tmp_path,
        STEPS,
        nodes=2,
        parameters={"epochs": "2"},
        env={"LEVEL": "3"},
        inputs={"data_url": str(tmp_path / "data")},
        outputs={"train_url": f"obs://{client.bucket}/out"},
        metrics={"throughput": {"pattern": "fps: ([0-9.]+)", "unit": "images/s"}},
    )
    found = run_json(muster, home, job)
    assert (found["state"], found["exit"]) == ("succeeded", 0), found
    assert [(one["process"], one["state"], one["code"]) for one in found["attempts"][0]["ranks"]] == [
        ("rank-0", "succeeded", 0),
        ("rank-1", "succeeded", 0),
    ]
    log = muster("logs", found["run"]).stdout.splitlines()
    assert log[0] == "arguments ['--epochs=2']" and log[1:3] == ["variable 3", "data of this machine"]
    assert [line.split()[1] for line in log if line.startswith("step")] == [str(number) for number in range(1200)]
    assert log[-1] == "end"
    assert "step 1199 fps: 11" in muster("logs", found["run"], "--rank", "1").stdout
    node = Path(found["dir"], "attempts/1/nodes/0")
    assert (node / "outputs/train_url/model.txt").read_text() == "trained"
    assert found["result"]["accuracy"]["value"] == 0.75 and found["result"]["throughput"]["value"] == 21.0
    assert client.get("out/model.txt") == b"trained"
    [made] = [one for one in jobs_of(client) if one["metadata"]["description"].startswith(f"Muster run {found['run']},")]
    assert made["spec"]["resource"]["flavor_id"] == "cpu.1"
    written = "".join(path.read_text(errors="replace") for path in Path(found["dir"]).rglob("*") if path.is_file())
    assert client.secret not in written and json.loads(Path(found["dir"], "run.json").read_text())["engine"] == "modelarts"


HELLO = "print('hello', flush=True)\n"
GATED = """import socket, sys
print("before", flush=True)
port = next(word for word in sys.argv if word.startswith("--port=")).partition("=")[2]
with socket.create_connection(("127.0.0.1", int(port))) as gate:
    gate.recv(1)
print("after", flush=True)
"""


@pytest.fixture
def gate() -> Iterator[socket.socket]:
    """Where programs wait until they may go on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(90)
        yield listener


def started(muster: Muster, job: Path, gate: socket.socket) -> tuple[str, socket.socket]:
    """Starts a job that goes on by itself; returns its run once its program waits, and the connection."""
    port = gate.getsockname()[1]
    done = muster("run", job, "--engine", "modelarts", "--detach", "--json", "--set", f"parameters.port={port}")
    assert done.returncode == 0, done.stderr
    assert "needs this machine to stay up" in done.stderr
    return json.loads(done.stdout)["run"], gate.accept()[0]


def own_jobs(client: Client, run: str) -> list[dict[str, Any]]:
    return [one for one in jobs_of(client) if one["metadata"]["description"].startswith(f"Muster run {run},")]


def is_create(line: str) -> bool:
    return line.startswith("POST") and line.split()[1].endswith("/training-jobs")


@pytest.mark.parametrize(
    "faults",
    [
        [LOST_429, LOST_CUT, LOST_500, CUT],
        [NO_ANSWER],
    ],
    ids=lambda faults: ", ".join(faults),
)
def test_whatever_happens_to_its_creation_there_is_one_job(
    muster: Muster, home: Path, tmp_path: Path, client: Client, faults: list[str]
) -> None:
    port = int(client.scene.server.url.rpartition(":")[2])
    with broken_line(port, faults, is_create) as line:
        use(home, client, line.url, timeout="2s")
        found = run_json(muster, home, write(tmp_path, HELLO))
        assert (found["state"], line.happened[:1]) == ("succeeded", faults[:1]), found
        assert line.happened == faults or line.faults == faults[len(line.happened) :]
    assert muster("logs", found["run"]).stdout == "hello\n"
    assert len(own_jobs(client, found["run"])) == 1


def test_any_request_may_fail_on_the_way(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    port = int(client.scene.server.url.rpartition(":")[2])
    faults = [LOST_500, CUT, LOST_429, CUT_WITHIN, LOST_CUT, ANSWERED_500]
    lines = "".join(f"print('line {number}', flush=True)\n" for number in range(30))
    with broken_line(port, faults, lambda line: "/logs/" in line or "/training-jobs/" in line) as line:
        use(home, client, line.url, timeout="5s")
        found = run_json(muster, home, write(tmp_path, lines))
        assert (found["state"], line.faults) == ("succeeded", [])
    assert muster("logs", found["run"]).stdout == "".join(f"line {number}\n" for number in range(30))


def test_a_job_whose_supervisor_was_killed_is_taken_over(
    muster: Muster, home: Path, tmp_path: Path, client: Client, gate: socket.socket
) -> None:
    use(home, client)
    run, program = started(muster, write(tmp_path, GATED), gate)
    with program:
        until(lambda: muster("logs", run).stdout == "before")  # the end of a line is known when another one follows
        handle = json.loads((home / "runs" / run / "run.json").read_text())["handle"]
        os.kill(int(handle.split(":")[0]), signal.SIGKILL)
        until(lambda: json.loads(muster("show", run, "--json").stdout)["state"] == "pending")
        assert "reconcile" in json.loads(muster("show", run, "--json").stdout)["reason"]
        until(lambda: own_jobs(client, run)[0]["status"]["phase"] == "Running")
        assert muster("reconcile", run).returncode == 0
        program.sendall(b".")
    assert muster("wait", run).returncode == 0, muster("show", run).stdout
    assert muster("logs", run).stdout == "before\nafter\n"
    assert [one["status"]["phase"] for one in own_jobs(client, run)] == ["Completed"]
    assert len(json.loads(muster("show", run, "--json").stdout)["attempts"]) == 1


def test_a_run_that_is_stopped_ends_its_job(
    muster: Muster, home: Path, tmp_path: Path, client: Client, gate: socket.socket
) -> None:
    use(home, client)
    job = write(tmp_path, GATED, outputs={"train_url": f"obs://{client.bucket}/taken"}, grace="1s")
    run, program = started(muster, job, gate)
    with program:
        other = muster("run", job, "--engine", "modelarts", "--set", "parameters.port=1")
        assert other.returncode == 2 and f"to which the job {run}-1 writes" in other.stderr, other.stderr
        assert muster("stop", run).returncode == 0
    found = json.loads(muster("show", run, "--json").stdout)
    assert (found["state"], found["reason"]) == ("stopped", "stopped by the user")
    assert [one["status"]["phase"] for one in own_jobs(client, run)] == ["Terminated"]


def test_a_job_waits_at_its_place_in_the_queue(
    muster: Muster, home: Path, tmp_path: Path, client: Client, gate: socket.socket
) -> None:
    """The pool has one run at a time, which is no quota: the service takes more jobs."""
    use(home, client)
    first, program = started(muster, write(tmp_path, GATED), gate)
    with program:
        done = muster("run", write(tmp_path, HELLO), "--engine", "modelarts", "--detach", "--json")
        second = json.loads(done.stdout)["run"]
        before = "in the queue of ModelArts: Pending (Queuing): place 1 in the queue: "
        until(lambda: json.loads(muster("show", second, "--json").stdout)["reason"].startswith(before))
        program.sendall(b".")
    assert [muster("wait", run).returncode for run in (first, second)] == [0, 0]


def test_a_failed_job_is_tried_again_as_another_job(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client)
    found = run_json(muster, home, write(tmp_path, "import sys\nprint('no')\nsys.exit(3)\n", retries=1))
    assert (found["state"], found["exit"]) == ("failed", 1)
    assert found["reason"] == "rank 0 on node 0 exited with code 3 (attempt 2 of 2)", found["reason"]
    assert [one["metadata"]["name"] for one in own_jobs(client, found["run"])] == [f"{found['run']}-2", f"{found['run']}-1"]
    assert (found["failure"]["code"], found["failure"]["tail"]) == (3, ["no"])


def test_version_1_runs_jobs_of_old_scripts(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    url = client.scene.server.url
    use(home, client, engine="PyTorch", project="", region="any", iam_endpoint=url)  # IAM finds the project
    program = "import sys\nprint([word for word in sys.argv if 'url' in word or 'epochs' in word])\n"
    outputs = {"train_url": f"obs://{client.bucket}/old"}
    job = write(tmp_path, program, compat="modelarts-v1", outputs=outputs, parameters={"epochs": 1})
    found = run_json(muster, home, job)
    assert (found["state"], found["exit"]) == ("succeeded", 0), found
    assert f"{client.bucket}/old/" in muster("logs", found["run"]).stdout
    journal = json.loads(Path(found["dir"], "modelarts.json").read_text())["jobs"]["1"]
    assert (journal["api"], journal["version"] != "") == ("v1", True)
    assert own_jobs(client, found["run"]) == []


def test_a_lost_answer_of_version_1_makes_no_second_job(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    port = int(client.scene.server.url.rpartition(":")[2])
    with broken_line(port, [CUT], is_create) as line:
        use(home, client, line.url, engine="PyTorch")
        found = run_json(muster, home, write(tmp_path, HELLO, compat="modelarts-v1"))
        assert (found["state"], line.happened) == ("succeeded", [CUT]), found
    with client.scene.server.http() as http:
        headers, search = {"X-Auth-Token": client.token}, {"search_content": found["run"]}
        listed = http.get(f"/v1/{client.project_id}/training-jobs", headers=headers, params=search).json()
    assert listed["job_total_count"] == 1


def test_the_request_is_shown_as_it_would_be_sent(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client)
    (tmp_path / "words.txt").write_text("local")
    job = write(tmp_path, HELLO, inputs={"data_url": str(tmp_path / "words.txt")}, nodes=2, time_limit="90m")
    shown = json.loads(muster("run", job, "--engine", "modelarts", "--dry-run", "--json").stdout)
    first, _, text = shown["request"].partition("\n")
    assert first == f"POST {client.scene.server.url}/v2/{client.project_id}/training-jobs"
    body = json.loads(text)
    assert body["algorithm"]["code_dir"].startswith(f"/{client.bucket}/muster/code/")
    assert body["algorithm"]["boot_file"] == body["algorithm"]["code_dir"] + "train.py"
    assert body["algorithm"]["inputs"][0]["remote"]["obs"]["obs_url"].startswith(f"/{client.bucket}/muster/data/")
    assert body["spec"] == {
        "resource": {"flavor_id": "cpu.1", "node_count": 2},
        "auto_stop": {"time_unit": "HOURS", "duration": 2},
    }
    plain = muster("run", job, "--engine", "modelarts", "--dry-run").stdout
    assert '"code_dir"' in plain and client.secret not in plain + json.dumps(shown)
    assert not (home / "runs").exists()


def test_what_the_service_cannot_do_is_refused_at_once(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client, flavor="")
    variables = {f"V{number}": "1" for number in range(101)}
    job = write(tmp_path, HELLO, compat=None, framework="command", setup="true", env=variables, modelarts={"api": "v2"})
    done = muster("run", job, "--engine", "modelarts", "--set", "code=" + str(job.parent))
    for words in ("`setup` is given", "101 variables", "no pool is named"):
        assert words in done.stderr, done.stderr
    assert done.returncode == 2 and not (home / "runs").exists()
    use(home, client, flavor="modelarts.none", engine="no-such-engine")
    done = muster("run", write(tmp_path, HELLO), "--engine", "modelarts")
    assert done.returncode == 2 and "`modelarts.none`, which the service does not have" in done.stderr, done.stderr
    old = muster("run", job, "--engine", "modelarts", "--set", "compat=modelarts-v1")
    assert old.returncode == 2 and "`modelarts.flavor` is `modelarts.none`, which the service" in old.stderr, old.stderr
    for number in range(4097):
        (job.parent / f"f{number}").touch()
    done = muster("run", write(tmp_path, HELLO), "--engine", "modelarts")
    assert done.returncode == 2 and "the service takes 4,096 at most" in done.stderr, done.stderr
    use(home, client, secret_key="wrong")
    (job.parent / ".musterignore").write_text("f*\n")
    done = muster("run", write(tmp_path, HELLO), "--engine", "modelarts")
    assert done.returncode == 3 and "refuses the keys" in done.stderr, done.stderr
    assert not (home / "runs").exists()


def test_a_measurement_has_result_report_and_bundle(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client)
    program = "for step in range(20):\n    print('fps:', 50, flush=True)\n"
    job = write(tmp_path, program, nodes=2, metrics={"throughput": {"pattern": "fps: ([0-9.]+)", "unit": "images/s"}})
    page, bundle = tmp_path / "report.html", tmp_path / "result.tar.gz"
    done = muster("bench", job, "--engine", "modelarts", "--export", bundle, "--html", page, "--json", timeout=110)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(done.stdout)["metrics"]["throughput"]["value"] == 100.0
    assert "100" in page.read_text()
    verified = muster("verify", bundle)
    assert verified.returncode == 0, (verified.stdout, verified.stderr)

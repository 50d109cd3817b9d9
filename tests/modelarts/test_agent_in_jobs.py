"""Jobs of ModelArts in which Muster's agent runs: engine, vendor SDK, a real server, and the record on its way back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_scene import jobs_of, run_json, use, write
from fake_devices import Gpus
from modelarts_scene import Client, Scene, new_client, served
from modelarts_scene import collected as collected

from conftest import Muster, until
from muster_server import server_folder

AGENT: dict[str, Any] = {"compat": None, "devices": 2, "nodes": 2}
STEPS = """import os, sys
from muster import record
rank = int(os.environ["RANK"])
print("rank", rank, "of", os.environ["WORLD_SIZE"], "local", os.environ["LOCAL_RANK"], flush=True)
print("attempt", os.environ["MUSTER_ATTEMPT"], "keys", [name for name in os.environ if "SECRET" in name], flush=True)
paths = dict(word[2:].split("=", 1) for word in sys.argv[1:])
print("data", open(os.path.join(paths["data_url"], "words.txt")).read(), "epochs", paths["epochs"], flush=True)
for step in range(400):
    print("step", step, flush=True)
record.metric("throughput", 10.0 * (rank + 1))
if rank == 0:
    record.metric("accuracy", 0.75)
    open(os.path.join(os.environ["train_url"], "model.txt"), "w").write("trained")
print("end", os.environ["LEVEL"], flush=True)
"""


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_UPLOAD_EVERY", "1")
        with served() as found:
            yield found


@pytest.fixture(scope="module")
def client(scene: Scene) -> Client:
    return new_client(scene)


def test_a_run_in_a_job_is_recorded_like_any_other(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client, flavor="cpu.2")  # with two cards the service starts the boot file twice on each node
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("of this machine")
    job = write(
        tmp_path,
        STEPS,
        **AGENT,
        parameters={"epochs": "2"},
        env={"LEVEL": "3"},
        setup="export LEVEL=4",
        inputs={"data_url": str(tmp_path / "data")},
        outputs={"train_url": {"url": f"obs://{client.bucket}/out", "access": "env"}},
    )
    found = run_json(muster, home, job)
    assert (found["state"], found["exit"]) == ("succeeded", 0), (found, logs(found))
    assert [(one["process"], one["node"], one["state"]) for one in found["attempts"][0]["ranks"]] == [
        (f"rank-{rank}", rank // 2, "succeeded") for rank in range(4)
    ]
    for rank in range(4):
        log = muster("logs", found["run"], "--rank", rank).stdout.splitlines()
        assert log[:3] == [f"rank {rank} of 4 local {rank % 2}", "attempt 1 keys []", "data of this machine epochs 2"]
        assert log[3:-1] == [f"step {step}" for step in range(400)] and log[-1] == "end 4"
    assert (found["result"]["throughput"]["value"], found["result"]["accuracy"]["value"]) == (100.0, 0.75)
    assert client.get("out/model.txt") == b"trained"
    assert (Path(found["dir"]) / "attempts/1/nodes/0/outputs/train_url/model.txt").read_text() == "trained"


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("mpirun") or not shutil.which("sshd", path="/usr/sbin"), reason="no mpirun or no sshd")
def test_mpirun_starts_ranks_on_all_workers(muster: Muster, home: Path, tmp_path: Path, client: Client) -> None:
    use(home, client)
    program = "import os\nprint('rank', os.environ['OMPI_COMM_WORLD_RANK'], 'of', os.environ['OMPI_COMM_WORLD_SIZE'])\n"
    found = run_json(muster, home, write(tmp_path, program, **{**AGENT, "framework": "mpi"}))
    assert found["state"] == "succeeded", (found["reason"], logs(found))
    for rank in range(4):
        assert muster("logs", found["run"], "--rank", rank).stdout == f"rank {rank} of 4\n"


FAILS = """import os, sys, time
print("rank", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "3":
    raise RuntimeError("out of luck")
time.sleep(600)
"""


def test_the_first_failure_is_that_of_the_rank_that_was_its_cause(
    muster: Muster, home: Path, tmp_path: Path, client: Client
) -> None:
    use(home, client)
    job = write(tmp_path, FAILS, **AGENT, grace="1s", retries=1)
    found = run_json(muster, home, job)
    assert (found["state"], found["exit"]) == ("failed", 1), (found, logs(found))
    assert found["reason"] == "rank 3 on node 1 exited with code 1: RuntimeError: out of luck (attempt 2 of 2)", found["reason"]
    assert found["failure"]["tail"][0] == "rank 3"
    assert [len(one["ranks"]) for one in found["attempts"]] == [4, 4]
    assert {one["status"]["phase"] for one in own_jobs(client, found["run"])} == {"Failed"}
    with client.obs() as obs:  # the key of an attempt is gone with its job
        kept = [one.key for one in obs.listObjects(client.bucket).body.contents if found["run"] in one.key]
    assert kept and {key.rpartition("/")[0] for key in kept} == {f"muster/records/{found['run']}/{number}" for number in (1, 2)}


def own_jobs(client: Client, run: str) -> list[dict[str, Any]]:
    return [one for one in jobs_of(client) if one["metadata"]["description"].startswith(f"Muster run {run},")]


WAITS = """import socket, sys
print("before", flush=True)
with socket.create_connection(("127.0.0.1", int(sys.argv[1].partition("=")[2]))) as gate:
    gate.recv(1)
print("after", flush=True)
"""


@pytest.fixture
def gate() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(90)
        yield listener


def started(muster: Muster, job: Path, gate: socket.socket) -> tuple[str, list[socket.socket]]:
    """Starts a run; returns it once both of its ranks wait, and their connections."""
    port = gate.getsockname()[1]
    done = muster("run", job, "--engine", "modelarts", "--detach", "--json", "--set", f"parameters.port={port}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["run"], [gate.accept()[0] for _ in range(2)]


def shown(muster: Muster, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(muster("show", run, "--json").stdout)
    return found


def test_a_run_goes_on_without_its_submitter_which_another_one_takes_over(
    muster: Muster, home: Path, tmp_path: Path, client: Client, gate: socket.socket
) -> None:
    use(home, client)
    run, programs = started(muster, write(tmp_path, WAITS, compat=None, nodes=2), gate)
    until(lambda: shown(muster, run)["state"] == "running")
    until(lambda: muster("logs", run, "--rank", "1").stdout == "before\n")

    def noted() -> dict[str, Any]:
        """How far the record was read, as the supervisor has written it down for its successor."""
        found: dict[str, Any] = json.loads((home / "runs" / run / "modelarts.json").read_text())["jobs"]["1"]["record"]
        return found

    until(lambda: {name for _, _, name, _ in noted()["logs"]} >= {"logs/rank-0.log", "logs/rank-1.log"})
    assert noted()["taken"] > 0
    os.kill(int(json.loads((home / "runs" / run / "run.json").read_text())["handle"].split(":")[0]), signal.SIGKILL)
    until(lambda: shown(muster, run)["state"] == "pending")
    assert muster("reconcile", run).returncode == 0
    for program in programs:
        program.sendall(b".")
        program.close()
    assert muster("wait", run, timeout=90).returncode == 0, muster("show", run).stdout
    for rank in range(2):
        assert muster("logs", run, "--rank", rank).stdout == "before\nafter\n"
    assert (home / "runs" / run / "attempts/1/nodes/1/metrics.jsonl").stat().st_size > 0  # what was sampled there
    assert len(shown(muster, run)["attempts"]) == len(own_jobs(client, run)) == 1


def test_a_stop_ends_the_job_and_what_was_written_is_there(
    muster: Muster, home: Path, tmp_path: Path, client: Client, gate: socket.socket
) -> None:
    use(home, client, engine="", image="of-the-user")  # without an engine a command of the image starts the boot file
    run, programs = started(muster, write(tmp_path, WAITS, compat=None, nodes=2, grace="1s"), gate)
    assert muster("stop", run, timeout=90).returncode == 0
    for program in programs:
        program.close()
    found = shown(muster, run)
    assert (found["state"], found["reason"]) == ("stopped", "stopped by the user")
    assert [bool(one["pid"]) for one in found["attempts"][0]["ranks"]] == [True, True]  # the agents have recorded their ends
    assert found["warnings"] == []
    assert [one["status"]["phase"] for one in own_jobs(client, run)] == ["Terminated"]
    assert muster("logs", run, "--rank", "1").stdout == "before\n"


@pytest.mark.long
def test_each_node_has_the_devices_that_the_service_gives_it(muster: Muster, home: Path, tmp_path: Path) -> None:
    """They are held by the job, which is a run of the server's, so that the agent in it does not wait for them."""
    folder = server_folder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", Gpus(folder / "machine", 4).env["PATH"])
        with served() as scene:
            patch.undo()
            use(home, new_client(scene), flavor="nvidia.2")
            program = "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
            found = run_json(muster, home, write(tmp_path, program, **AGENT, device="nvidia"))
    assert found["state"] == "succeeded", (found["reason"], logs(found))
    assert [muster("logs", found["run"], "--rank", rank).stdout for rank in range(4)] == ["0,1\n"] * 2 + ["2,3\n"] * 2
    shutil.rmtree(folder)


def test_the_request_of_such_a_job_is_shown_as_it_would_be_sent(
    muster: Muster, home: Path, tmp_path: Path, client: Client
) -> None:
    use(home, client)
    job = write(tmp_path, WAITS, **AGENT, parameters={"epochs": "2"}, outputs={"train_url": f"obs://{client.bucket}/out"})
    shown = json.loads(muster("run", job, "--engine", "modelarts", "--dry-run", "--json").stdout)
    body = json.loads(shown["request"].partition("\n")[2])
    algorithm = body["algorithm"]
    assert algorithm["code_dir"].startswith(f"/{client.bucket}/muster/agents/")
    assert algorithm["boot_file"] == algorithm["code_dir"] + "muster_boot.py" and "parameters" not in algorithm
    places = {one["name"]: one["remote"]["obs"]["obs_url"] for one in (*algorithm["inputs"], *algorithm["outputs"])}
    assert list(places) == ["muster_code", "muster_given", "train_url", "muster_record"]
    assert places["muster_code"].startswith(f"/{client.bucket}/muster/code/") and places["muster_record"].endswith("/1/")
    assert not (home / "runs").exists()


def logs(found: dict[str, Any]) -> str:
    return "".join(f"\n{path}\n{path.read_text()}" for path in Path(found["dir"]).rglob("*.log"))

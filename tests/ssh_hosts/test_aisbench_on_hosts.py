"""An offline package of AISBench, two servers with eight ranks each, on real hosts: imported and run as it stands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages import changed, package, stubs, unpacked
from ready_packages import WORDS
from ready_packages import installed as installed
from test_import_offline import table

from conftest import Muster
from host_machines import Machines

pytestmark = pytest.mark.long

PASSWORD = "word-of-the-hosts"
# As AISBench's patches do: each rank reports its throughput, the first the accuracy. The data of a host says how fast it is.
TRAIN = """
import json, os, sys

rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
with open(os.environ["RANK_TABLE_FILE"]) as file:
    servers = [server["server_id"] for server in json.load(file)["server_list"]]
own = servers[rank // 8 if size > 8 else 0]
with open(os.environ["TRAIN_DATA_PATH"] + "/speed") as file:
    speed = float(file.read())
print("rank", rank, "of", size, "on", *servers, "epochs", os.environ["EPOCH_SIZE"], flush=True)
if os.environ.get("FAILING") == f"{own}:{rank % 8}":
    sys.exit(3)
with open(f"{os.environ['RESULT_PATH']}/throughput_rank_{rank}", "w") as file:
    file.write(str(speed + rank))
if rank == 0:
    with open(os.environ["RESULT_PATH"] + "/eval_acc.log", "w") as file:
        file.write(str(speed / 1000))
"""
SHELL = """export PYTHON_COMMAND=python3
export TRAIN_DATA_PATH=/root/aisbench-data
export EPOCH_SIZE=90
export RANK_SIZE=16
export DEVICE_NUM=8
export RANK_TABLE_FILE=$CODE_PATH/table.json
export NODEINFO_FILE=$CODE_PATH/nodes.json
"""
SPEEDS = {"h1": 100, "h2": 200}
BOTH = float(sum(100 + rank for rank in range(8)) + sum(200 + rank for rank in range(8, 16)))
APART = [828.0, 1628.0]


@pytest.fixture
def servers(machines: Machines) -> Iterator[list[str]]:
    """The addresses of two hosts, on which the data of the training lies."""
    for name, speed in SPEEDS.items():
        folder = machines.home(name) / "aisbench-data"
        folder.mkdir()
        (folder / "speed").write_text(str(speed))
    yield [machines.address(name) for name in SPEEDS]
    for name in SPEEDS:
        shutil.rmtree(machines.home(name) / "aisbench-data")


def files(servers: list[str]) -> dict[str, str]:
    """The rank table and the logins of a package, with the addresses of the servers as AISBench wants them."""
    listed = json.loads(table(2, 8))["server_list"]
    for entry, address in zip(listed, servers, strict=True):
        entry["server_id"] = address
    login = {"user": "root", "pd": PASSWORD, "port": "22"}
    return {
        "code/table.json": table(2, 8, server_list=listed),
        "code/nodes.json": json.dumps({"cluster": dict.fromkeys(servers, login)}),
    }


@pytest.fixture
def job(servers: list[str], tmp_path: Path, muster: Muster, home: Path) -> Path:
    """The job of an imported package; nothing in it is changed."""
    folder = package(tmp_path / "pack", None, SHELL, **{"code/code/train.py": TRAIN, **files(servers)})
    done = muster("import", folder)
    assert done.returncode == 0, done.stderr
    for address in servers:
        assert f"install yours with `ssh-copy-id -p 22 root@{address}`" in done.stderr
    typed = "`muster run job.yaml --engine ssh --check`, then `muster bench job.yaml --engine ssh`"
    assert done.stdout == f"job.yaml: try {typed}\n"
    written = done.stdout + done.stderr + "".join(path.read_text() for path in (tmp_path / "job.yaml", *home.glob("*.toml")))
    assert PASSWORD not in written
    return tmp_path / "job.yaml"


def bench(muster: Muster, job: Path, *words: object, engine: str = "ssh") -> dict[str, Any]:
    """Measures the job, and returns the result with the problems of its verdict as one text."""
    done = muster("bench", job, "--engine", engine, "--json", *words)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "exit": done.returncode, "problems": "\n".join(found["verdict"]["problems"])}


def logs(muster: Muster, run: str) -> dict[int, str]:
    ranks = json.loads(muster("show", run, "--json").stdout)["attempts"][0]["ranks"]
    return {rank["rank"]: Path(rank["log"]).read_text() for rank in ranks}


def test_a_package_of_two_hosts_runs_as_it_stands(servers: list[str], job: Path, muster: Muster) -> None:
    assert yaml.safe_load(job.read_text())["hosts"] == [f"root@{address}:22" for address in servers]
    checked = muster("run", job, "--engine", "ssh", "--check")
    assert checked.returncode == 0, checked.stderr
    result = bench(muster, job)
    assert result["exit"] == 0, result["problems"]
    info = result["train_result_info"]
    assert (info["throughput_ratio"], info["accuracy"]) == (repr(BOTH), "0.1")
    [run] = result["runs"]
    assert len(run["metrics"]["throughput"]["ranks"]) == 16
    table = " ".join(servers)
    assert logs(muster, run["run"]) == {rank: f"rank {rank} of 16 on {table} epochs 90\n" for rank in range(16)}


def test_a_result_of_hosts_is_as_complete_as_one_of_this_machine(
    servers: list[str], job: Path, muster: Muster, tmp_path: Path
) -> None:
    (tmp_path / "speed").write_text("100")
    both = [bench(muster, job), bench(muster, job, "--set", f"env.TRAIN_DATA_PATH={tmp_path}", engine="local")]
    assert [result["problems"] for result in both] == ["", ""]
    on_hosts, here = ({key for key, value in result["train_result_info"].items() if value is not None} for result in both)
    assert on_hosts >= here >= {"throughput_ratio", "accuracy", "total_start_time", "total_end_time"}


def test_each_server_alone(servers: list[str], job: Path, muster: Muster) -> None:
    result = bench(muster, job, "--scope", "server")
    assert result["exit"] == 0, result["problems"]
    [run] = result["runs"]
    assert run["metrics"]["throughput"]["list"] == APART
    assert run["metrics"]["accuracy"]["list"] == [0.1, 0.2]
    alone = {rank: f"rank {rank % 8} of 8 on {servers[rank // 8]} epochs 90\n" for rank in range(16)}
    assert logs(muster, run["run"]) == alone


@pytest.mark.parametrize("scope", ["cluster", "server"])
def test_a_rank_that_fails_is_named_with_its_host(
    scope: str, servers: list[str], job: Path, muster: Muster, tmp_path: Path
) -> None:
    bundle = tmp_path / "failed.tar.gz"
    result = bench(muster, job, "--scope", scope, "--set", f"env.FAILING={servers[1]}:1", "--export", bundle)
    assert result["exit"] == 1
    assert f"rank 9 on node 1 (root@{servers[1]}:22) exited with code 3" in result["problems"]
    verified = muster("verify", bundle)
    assert verified.returncode == 0, verified.stdout


def test_a_host_without_the_key_is_named_with_what_to_do(
    servers: list[str], job: Path, machines: Machines, muster: Muster
) -> None:
    keys = machines.home("h2") / "authorized_keys"
    kept = keys.read_text()
    keys.write_text("")
    try:
        said = muster("bench", job, "--engine", "ssh")
        result = bench(muster, job, "--set", "device=cpu")
    finally:
        keys.write_text(kept)
    reason = f"it does not accept your key; install one with `ssh-copy-id -p 22 root@{servers[1]}`"
    assert said.returncode == 2, "hosts are asked for their devices before the run"
    assert f"root@{servers[1]}:22, which cannot be used: {reason}" in said.stderr
    assert result["exit"] == 1
    assert f"root@{servers[1]}:22: {reason}" in result["problems"]


def test_a_host_that_is_off_is_named(servers: list[str], job: Path, machines: Machines, muster: Muster) -> None:
    changed(job, ("hosts: [", "hosts: {lost_after: 3s, nodes: ["), ('"]  #', '"]}  #'))
    machines.power_off("h2")
    try:
        result = bench(muster, job, "--set", "device=cpu")
    finally:
        machines.boot("h2")
    assert result["exit"] == 1
    assert f"root@{servers[1]}:22: nothing listens at its ssh port" in result["problems"]


def test_the_program_of_a_package_runs_it_on_its_hosts(
    servers: list[str], machines: Machines, muster: Muster, tmp_path: Path
) -> None:
    """`ais-bench-stubs` goes to the servers of NODEINFO_FILE, as AISBench's own does."""
    made = muster("pack", workload(tmp_path / "workload"), *WORDS)
    assert made.returncode == 0, made.stderr
    folder = unpacked(tmp_path / made.stdout.strip(), tmp_path)
    for name, text in files(servers).items():
        (folder / name).write_text(text)
    done = stubs(folder, "test")
    assert done.returncode == 0, done.stdout
    assert f'"throughput_ratio" : "{BOTH!r}"' in done.stdout
    assert PASSWORD not in done.stdout + (folder / "tmp/job.yaml").read_text()
    assert len([*(folder / "result").glob("throughput_rank_*")]) == 16
    assert (folder / "log/train_parallel15.log").read_text().startswith("rank 15 of 16")
    changed(folder / "code/config/config.sh", ("export EPOCH", f"export FAILING={servers[1]}:1\nexport EPOCH"))
    done = stubs(folder, "test")
    assert done.returncode == 2
    assert f"rank 9 on node 1 (root@{servers[1]}:22) exited with code 3" in done.stdout


def workload(folder: Path) -> Path:
    """A workload whose packages train on two servers."""
    for name, text in {"code/train.py": TRAIN, "config/config.sh": SHELL}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder

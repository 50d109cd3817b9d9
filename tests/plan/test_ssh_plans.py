"""What nodes are told about ssh and launchers: texts that real programs read as they are meant."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from worlds import PLACES, RUN, facts, job, two_nodes

from muster.job import Job
from muster.plan import NodeInfo, PlanError, World, assemble, build, ssh
from muster.plan.frameworks.horovod import OWN_RANK


def simulated(asked: Job) -> World:
    return assemble(asked, RUN, 1, [facts(node, address=f"127.3.4.{node + 1}") for node in range(asked.nodes)])


def argv(asked: Job, world: World) -> list[str]:
    first, *others = [build(asked, world, node.index, PLACES) for node in world.nodes]
    assert [plan.processes for plan in others] == [()] * len(others)  # the launcher reaches them
    return list(first.processes[0].argv)


@pytest.mark.parametrize(
    ("framework", "words"),
    [
        ("horovod", "horovodrun -np 4 --hostfile /run/nodes/N/hostfile --disable-cache --network-interface lo"),
        (
            "mpi",
            "mpirun -np 4 --hostfile /run/nodes/N/hostfile --mca oob_tcp_if_include lo "
            "--mca btl_tcp_if_include lo --mca btl self,tcp --mca rtc_hwloc_vmhole none --bind-to none",
        ),
    ],
)
def test_the_launcher_of_simulated_nodes_stays_on_their_addresses(framework: str, words: str) -> None:
    asked = job(framework=framework, ssh=True)
    own = OWN_RANK if framework == "horovod" else ()
    assert argv(asked, simulated(asked)) == [*words.split(), *own, "muster-rank", "/usr/bin/python3", "train.py"]


@pytest.mark.parametrize("framework", ["horovod", "mpi"])
def test_the_launcher_of_real_nodes_chooses_its_network(framework: str) -> None:
    asked = job(framework=framework, ssh=True, command=("./train", "-v"))
    words = argv(asked, two_nodes(asked, "cpu"))
    assert words[-3:] == ["muster-rank", "./train", "-v"]
    assert "lo" not in words


def test_open_mpi_is_told_that_root_may_only_where_root_does() -> None:
    asked = job(framework="mpi", ssh=True)
    world = two_nodes(asked, "cpu")
    nodes = tuple(replace(node, info=replace(node.info, uid=0)) for node in world.nodes)
    for found, expected in ((world, []), (replace(world, nodes=nodes), ["", "_CONFIRM"])):
        env = build(asked, found, 0, PLACES).processes[0].env
        assert [name for name in env if name.startswith("OMPI_")] == [f"OMPI_ALLOW_RUN_AS_ROOT{end}" for end in expected]


def with_ports(*ports: tuple[int, ...]) -> list[NodeInfo]:
    return [replace(facts(node), ssh=numbers) for node, numbers in enumerate(ports)]


def test_the_port_is_the_first_that_is_free_on_all_nodes() -> None:
    asked = job(framework="mpi", ssh=True)
    world = assemble(asked, RUN, 1, with_ports((32001, 32002, 32003), (32002, 32003)))
    assert world.ssh_port == 32002
    assert {build(asked, world, index, PLACES).ssh for index in (0, 1)} == {32002}


def test_without_a_port_for_all_nodes_there_is_no_run() -> None:
    asked = job(framework="mpi", ssh=True)
    with pytest.raises(PlanError, match="no port for ssh is free on all nodes"):
        build(asked, assemble(asked, RUN, 1, with_ports((32001,), (32002,))), 0, PLACES)


def test_a_job_without_ssh_has_no_trace_of_it() -> None:
    asked = job(framework="pytorch")
    plan = build(asked, two_nodes(asked, "cpu"), 0, PLACES)
    assert (plan.ssh, plan.together, plan.files, plan.prefix) == (0, False, (), {})


@pytest.mark.parametrize("folder", ["plain", "with a space", "100% of %d", 'a "quoted" one', "back\\slash"])
@pytest.mark.parametrize(("compat", "name"), [("", "node-1"), ("apulis", "worker-1"), ("apulis", "ib-worker-1")])
def test_ssh_understands_its_configuration(compat: str, name: str, folder: str, tmp_path: Path) -> None:
    if not shutil.which("ssh"):
        pytest.skip("ssh is not installed")
    asked = job(framework="mpi", ssh=True, compat=compat)
    place = tmp_path / folder
    place.mkdir()
    (place / "config").write_text(ssh.client(asked, two_nodes(asked, "cpu"), str(place)))
    done = subprocess.run(["ssh", "-F", str(place / "config"), "-G", name], capture_output=True, text=True, check=True)
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert (found["hostname"], found["port"], found["hostkeyalias"]) == ("10.0.0.2", "22100", "muster")
    if "%" not in folder:  # which ssh expands when it needs the file
        assert (found["identityfile"], found["userknownhostsfile"]) == (f"{place}/user", f"{place}/known_hosts")


# -- programs that stand in for others

REAL = """#!/bin/sh
env
"""
GIVEN = {
    "WANDB_KEY": "sesame-1",
    "MY_TOKEN": "sesame-2",
    "OBS_SK": "sesame-3",
    "http_proxy": "http://anna:sesame-4@proxy:80",
    "TWO_LINES": "first\nhttp://anna:sesame-5@proxy",
    "MUSTER_RUN": "run-1",
    "MUSTER_NODE": "0",
    "MUSTER_SOCKET": "@somewhere",
    "CUDA_VISIBLE_DEVICES": "2,3",
    "TASK": "harmless",
    "LR": "0.1",
}


def stand_ins(folder: Path, **fields: object) -> Path:
    """Writes the stand-ins of a job; returns their directory."""
    asked = job(framework="horovod", ssh=True, **fields)
    places = replace(PLACES, node=str(folder), ssh=str(folder / "ssh"))
    for file in build(asked, two_nodes(asked, "cpu"), 0, places).files:
        path = Path(file.path)
        path.parent.mkdir(exist_ok=True)
        path.write_text(file.text)
        path.chmod(file.mode)
    return folder / "bin"


def horovodrun(tmp_path: Path, *words: str) -> str:
    """What of its environment the real horovodrun sees."""
    ours = stand_ins(tmp_path, secrets=("WANDB_KEY",))
    theirs = tmp_path / "a b"
    theirs.mkdir()
    (theirs / "horovodrun").write_text(REAL)
    (theirs / "horovodrun").chmod(0o755)
    env = {**GIVEN, "PATH": f"{ours}:{theirs}:{os.environ['PATH']}"}
    return subprocess.run(["horovodrun", *words], capture_output=True, text=True, check=True, env=env).stdout


@pytest.mark.parametrize("words", [("-np", "2"), ("-np", "4", "-hostfile", "h", "python", "train.py")])
def test_no_secret_reaches_horovodrun_which_shows_its_environment_to_everybody(words: tuple[str, ...], tmp_path: Path) -> None:
    said = horovodrun(tmp_path, *words)
    assert "sesame" not in said
    assert {"TASK=harmless", "LR=0.1", "MUSTER_RUN=run-1"} <= set(said.splitlines())


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["-np", "4", "-hostfile", "h"], False),
        (["-np", "4", "--hostfile=h"], False),
        (["-np", "4", "-H", "node-0:2,node-1:2"], False),
        (["-np", "4", "--hosts", "node-0:2"], False),
        (["-np", "4", "python", "train.py"], True),
    ],
)
def test_what_a_node_has_of_its_own_is_not_carried_to_others(words: list[str], kept: bool, tmp_path: Path) -> None:
    said = horovodrun(tmp_path, *words).splitlines()
    own = {"MUSTER_NODE=0", "MUSTER_SOCKET=@somewhere", "CUDA_VISIBLE_DEVICES=2,3"}
    assert own & {*said} == (own if kept else set())


def test_a_stand_in_that_finds_nothing_to_stand_in_for_says_so(tmp_path: Path) -> None:
    ours = stand_ins(tmp_path)
    done = subprocess.run([ours / "horovodrun"], capture_output=True, text=True, env={"PATH": f"{ours}:/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (127, "muster: horovodrun is not on the PATH\n")


@pytest.mark.parametrize("prefix", ["HOROVOD", "OMPI_COMM_WORLD"])
def test_a_rank_has_its_number_its_log_and_the_directory_of_its_node(prefix: str, tmp_path: Path) -> None:
    work, logs = tmp_path / "the work", tmp_path / "logs"
    work.mkdir()
    logs.mkdir()
    env = {"PATH": "/usr/bin:/bin", "MUSTER_WORK": str(work), "MUSTER_RESULTS": f"{tmp_path}/results"}
    env |= {f"{prefix}_RANK": "3", f"{prefix}_LOCAL_RANK": "1"}
    program = ("sh", "-c", 'echo "$MUSTER_RANK $MUSTER_LOCAL_RANK $1"; pwd >&2', "sh", "a  b")
    subprocess.run([str(stand_ins(tmp_path) / "muster-rank"), *program], check=True, env=env, cwd="/")
    assert (logs / "rank-3.log").read_text() == f"3 1 a  b\n{work}\n"

"""From a job and the facts of its nodes to what each node does: what holds for all frameworks."""

from __future__ import annotations

import builtins
import json
import os
import random
import socket
import subprocess
import time
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import DEVICES, PLACES, RUN, facts, job, many_nodes, two_nodes

from muster.job import FRAMEWORKS, LAUNCHERS, Job
from muster.plan import Device, NodePlan, World, assemble, build, world_files

TOLD = """
MUSTER_RUN MUSTER_ATTEMPT MUSTER_NODE MUSTER_NODES MUSTER_RANK MUSTER_LOCAL_RANK MUSTER_WORLD_SIZE MUSTER_HOSTS
MUSTER_MASTER_ADDR MUSTER_MASTER_PORT MUSTER_RESULTS MUSTER_SHARED
"""  # what every process is told

DOCUMENTED = {  # what each framework documents for its ranks
    "command": "",
    "pytorch": "MASTER_ADDR MASTER_PORT RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK",
    "mindspore": "RANK_ID RANK_SIZE DEVICE_ID DEVICE_NUM ASCEND_DEVICE_ID DEVICE_INDEX RANK_INDEX SERVER_ID",
    "paddle": "PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_CURRENT_ENDPOINT PADDLE_TRAINER_ENDPOINTS PADDLE_MASTER "
    "FLAGS_selected_gpus",
    "tensorflow": "TF_CONFIG",
    "horovod": "",  # its launcher tells them
    "mpi": "",
}


def plans(asked: Job, world: World) -> list[NodePlan]:
    return [build(asked, world, node.index, PLACES) for node in world.nodes]


def environments(asked: Job, world: World) -> list[dict[str, str]]:
    """The variables of all ranks, in the order of ranks."""
    ranks = [process for plan in plans(asked, world) for process in plan.processes if process.rank >= 0]
    return [process.env for process in sorted(ranks, key=lambda process: process.rank)]


# -- ranks


@given(nodes=st.integers(1, 6), devices=st.integers(1, 5), ps=st.integers(0, 2), shuffle=st.randoms(use_true_random=False))
def test_a_rank_is_its_node_times_the_devices_plus_its_device(
    nodes: int, devices: int, ps: int, shuffle: random.Random
) -> None:
    asked = job(framework="tensorflow", nodes=nodes, devices=devices, ps=ps)
    reported = [facts(node, ports=1 + devices) for node in range(nodes + ps)]
    shuffle.shuffle(reported)  # nodes report in any order
    world = assemble(asked, RUN, 1, reported)
    assert [node.role for node in world.nodes] == ["worker"] * nodes + ["ps"] * ps
    found = [
        (plan.node, process.local, process.rank, process.name)
        for plan in plans(asked, world)
        for process in plan.processes
        if process.rank >= 0
    ]
    assert found == [
        (node, device, node * devices + device, f"rank-{node * devices + device}")
        for node in range(nodes)
        for device in range(devices)
    ]
    assert world.size == nodes * devices


def test_a_command_runs_once_per_node_unless_it_says_per_device() -> None:
    for per, ranks in (("", 2), ("node", 2), ("device", 4)):
        asked = job(framework="command", per=per)
        assert len(environments(asked, two_nodes(asked, "cpu"))) == ranks


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", DEVICES)
def test_every_process_is_told_who_it_is_and_every_rank_what_its_framework_documents(framework: str, kind: str) -> None:
    asked = job(framework=framework, per="device" if framework == "command" else "", ps=1 if framework == "tensorflow" else 0)
    world = two_nodes(asked, kind)
    for plan in plans(asked, world):
        for process in plan.processes:
            assert [name for name in TOLD.split() if not process.env.get(name)] == []
            assert process.env["MUSTER_RANK"] == str(process.rank)
            assert process.env["MUSTER_LOCAL_RANK"] == str(process.local)
            assert process.env["MUSTER_NODE"] == str(plan.node)
            if process.rank >= 0:
                assert [name for name in DOCUMENTED[framework].split() if not process.env.get(name)] == []
    assert world.size == 4


@pytest.mark.parametrize("framework", sorted({*FRAMEWORKS} - {*LAUNCHERS}))
def test_the_agent_starts_the_program_itself_without_a_launcher_in_between(framework: str) -> None:
    asked = job(framework=framework, parameters={"epochs": "3"})
    for plan in plans(asked, two_nodes(asked, "cpu")):
        ranks = [process for process in plan.processes if process.rank >= 0]
        assert {process.argv for process in ranks} == {("/usr/bin/python3", "train.py", "--epochs=3")}


def test_ranks_share_a_working_directory_per_node_or_have_one_each() -> None:
    asked = job(framework="mindspore", workdir="rank")
    first, second = plans(asked, two_nodes(asked, "cpu"))
    assert [process.cwd for process in second.processes] == [f"{PLACES.work}/rank-2", f"{PLACES.work}/rank-3"]
    assert first.work == (PLACES.work, f"{PLACES.work}/rank-0", f"{PLACES.work}/rank-1")  # the scheduler's, and one each
    shared = plans(replace(asked, workdir="node"), two_nodes(asked, "cpu"))
    assert {plan.work for plan in shared} == {(PLACES.work,)}


# -- the layers of the environment


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_env_of_the_job_has_the_last_word_over_framework_and_muster(framework: str) -> None:
    names = [*DOCUMENTED[framework].split(), "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"]
    env = dict.fromkeys(names, "mine")
    asked = job(framework=framework, env=env, ps=1 if framework == "tensorflow" else 0, setup="true")
    for plan in plans(asked, two_nodes(asked, "nvidia")):
        for given_env in [plan.setup_env, *(process.env for process in plan.processes)]:
            assert {name: given_env[name] for name in names} == env


def test_threads_are_shared_out_among_the_ranks_of_a_node_and_each_gets_one_at_least() -> None:
    for devices, threads in ((1, "8"), (2, "4"), (3, "2"), (8, "1"), (20, "1")):
        asked = job(framework="pytorch", nodes=1, devices=devices)
        (plan,) = plans(asked, assemble(asked, RUN, 1, [facts(0)]))
        assert plan.defaults == {"OMP_NUM_THREADS": threads}


def test_a_plan_holds_the_names_of_secrets_and_nothing_else_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "very-secret-text")
    asked = job(framework="pytorch", secrets=("THE_KEY",))
    for plan in plans(asked, two_nodes(asked, "cpu")):
        assert plan.secrets == ("THE_KEY",)
        assert "very-secret-text" not in json.dumps(plan.to_json())


# -- devices


def test_a_node_shows_its_processes_exactly_the_devices_that_it_was_given() -> None:
    asked = job(framework="pytorch")
    for kind, name, shown in (
        ("nvidia", "CUDA_VISIBLE_DEVICES", ["2,3", "0,5"]),
        ("ascend", "ASCEND_RT_VISIBLE_DEVICES", ["4,5", "0,1"]),
        ("cpu", "CUDA_VISIBLE_DEVICES", ["", ""]),
    ):
        found = [{process.env[name] for process in plan.processes} for plan in plans(asked, two_nodes(asked, kind))]
        assert found == [{shown[0]}, {shown[1]}], kind


def test_a_machine_without_nvidia_devices_has_nothing_to_hide() -> None:
    asked = job(framework="pytorch")
    world = two_nodes(asked, "cpu")
    bare = replace(world, nodes=tuple(replace(node, info=replace(node.info, nvidia=False)) for node in world.nodes))
    assert all("CUDA_VISIBLE_DEVICES" not in process.env for plan in plans(asked, bare) for process in plan.processes)


def test_a_mindspore_rank_opens_its_device_by_the_physical_id_with_a_table_and_by_its_place_without() -> None:
    asked = job(framework="mindspore")
    with_table = environments(asked, two_nodes(asked, "ascend"))
    assert [env["DEVICE_ID"] for env in with_table] == [env["ASCEND_DEVICE_ID"] for env in with_table] == ["4", "5", "0", "1"]
    assert all("ASCEND_RT_VISIBLE_DEVICES" not in env for env in with_table)
    without = environments(replace(asked, rank_table="none"), two_nodes(asked, "ascend"))
    assert [env["DEVICE_ID"] for env in without] == ["0", "1", "0", "1"]
    assert [env["ASCEND_RT_VISIBLE_DEVICES"] for env in without] == ["4,5", "4,5", "0,1", "0,1"]


def test_a_tensorflow_worker_sees_one_device_and_a_parameter_server_none() -> None:
    asked = job(framework="tensorflow", ps=1)
    seen = [
        [process.env["CUDA_VISIBLE_DEVICES"] for process in plan.processes] for plan in plans(asked, two_nodes(asked, "nvidia"))
    ]
    assert seen == [["2", "3"], ["0", "5"], [""]]


# -- the command


PARAMETERS = {"epochs": "3", "text": 'a "b" $HOME `date` \\ ü\nx', "empty": ""}
AS_WORDS = tuple(f"--{name}={value}" for name, value in PARAMETERS.items())


def argv(**fields: Any) -> tuple[str, ...]:
    asked = job(framework="command", nodes=1, **fields)
    return build(asked, assemble(asked, RUN, 1, [facts(0)]), 0, PLACES).processes[0].argv


def test_boot_is_run_with_the_python_of_the_job() -> None:
    assert argv(boot="a/train.py", python="/opt/python", parameters=PARAMETERS) == ("/opt/python", "a/train.py", *AS_WORDS)


def test_a_list_is_an_argv_that_parameters_follow() -> None:
    assert argv(command=("./train", "$HOME", "")) == ("./train", "$HOME", "")
    assert argv(command=("./train", "-x"), parameters=PARAMETERS) == ("./train", "-x", *AS_WORDS)


SHOW = "printf '%s\\0'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SHOW} one", ["one", *AS_WORDS]),
        (f"{SHOW} one  \n", ["one", *AS_WORDS]),
        (f'{SHOW} "$@" last', [*AS_WORDS, "last"]),
        (f'{SHOW} "${{@}}" last', [*AS_WORDS, "last"]),
        (f'{SHOW} "${{@:2:1}}"', [AS_WORDS[1]]),
        (f'{SHOW} "$*"', [" ".join(AS_WORDS)]),
        (f'first=1; {SHOW} "$first"', ["1", *AS_WORDS]),
        (f'for word in "$@"; do\n  {SHOW} "$word"\ndone', list(AS_WORDS)),
        (f"{SHOW} $0", ["bash", *AS_WORDS]),
    ],
)
def test_a_string_is_run_by_bash_with_the_parameters_behind_it_or_where_it_says(text: str, words: list[str]) -> None:
    done = subprocess.run(argv(command=text, parameters=PARAMETERS), capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words


def test_a_string_without_parameters_is_run_as_it_is() -> None:
    text = "echo 'a b' # nothing follows"
    assert argv(command=text) == ("bash", "-c", text, "bash")


# -- pure


class Untouchable:
    """Stands for the environment; any use of it fails."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError("a plan looked at the environment")


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a plan did something other than to compute")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_plan_is_computed_from_what_it_is_given_and_nothing_else(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = job(framework=framework, env={"A": "1"}, parameters={"epochs": "3"}, command="echo", setup="true")
    world = two_nodes(asked, "ascend")
    before = json.dumps([asked.to_json(), world.to_json()])
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        for name in ("open", "stat", "listdir", "scandir", "getcwd", "uname", "getpid", "cpu_count", "getenv", "access"):
            patch.setattr(os, name, refuse)
        for module, name in (
            (socket, "socket"),
            (subprocess, "Popen"),
            (time, "time"),
            (time, "monotonic"),
            (random, "random"),
        ):
            patch.setattr(module, name, refuse)
        patch.setattr(os, "environ", Untouchable())
        first, files = plans(asked, world), world_files(asked, world, PLACES.node)
        again = plans(asked, world), world_files(asked, world, PLACES.node)
    assert again == (first, files)
    assert json.dumps([asked.to_json(), world.to_json()]) == before  # and it changed nothing of it


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_node_computes_the_same_plan_from_the_world_as_it_was_published(framework: str) -> None:
    asked = job(framework=framework)
    world = two_nodes(asked, "ascend")
    published = World.from_json(json.loads(json.dumps(world.to_json())))
    assert published == world
    recorded = Job.from_json(json.loads(json.dumps(asked.to_json())))
    assert plans(recorded, published) == plans(asked, world)


# -- addresses


def crowded(asked: Job) -> World:
    """All nodes on one machine: one address, one host name, and ports that differ."""
    everybody = [
        replace(facts(node, "ascend", [Device("0"), Device("1")], address="10.0.0.1"), host="one-machine")
        for node in range(asked.nodes + asked.ps)
    ]
    return assemble(asked, RUN, 1, everybody)


def test_ranks_of_nodes_that_share_an_address_have_endpoints_of_their_own() -> None:
    asked = job(framework="paddle", nodes=3)
    found = environments(asked, crowded(asked))
    lists = {env["PADDLE_TRAINER_ENDPOINTS"] for env in found}
    assert len(lists) == 1
    endpoints = lists.pop().split(",")
    assert [env["PADDLE_CURRENT_ENDPOINT"] for env in found] == endpoints
    assert len({*endpoints, found[0]["PADDLE_MASTER"]}) == 7

    asked = job(framework="tensorflow", nodes=3, ps=2)
    configs = [json.loads(process.env["TF_CONFIG"]) for plan in plans(asked, crowded(asked)) for process in plan.processes]
    assert len({json.dumps(config["cluster"]) for config in configs}) == 1
    own = [config["cluster"][config["task"]["type"]][config["task"]["index"]] for config in configs]
    assert len(set(own)) == len(own) == 8


@pytest.mark.parametrize("format", ["lab", "pods", "1.0"])
def test_servers_that_share_an_address_are_told_apart_in_a_rank_table(format: str) -> None:
    asked = job(framework="mindspore", nodes=3, rank_table=format)
    world = crowded(asked)
    (text,) = world_files(asked, world, PLACES.node).values()
    entries = json.loads(text)
    entries = entries["server_list"] if format == "1.0" else entries["group_list"][0]["instance_list"]
    servers = {entry["server_id"] for entry in entries}
    assert len(servers) == 3
    assert all(len(server) <= 64 for server in servers)
    if format == "pods":
        names = [env["POD_NAME"] for env in environments(asked, world)]
        assert names == [entry["pod_name"] for entry in entries for _ in range(2)]
        assert len(set(names)) == 3


@given(
    format=st.sampled_from(["lab", "1.0"]),
    nodes=st.lists(st.lists(st.integers(0, 15), min_size=2, max_size=2, unique=True), min_size=1, max_size=5),
    apart=st.booleans(),
)
def test_a_rank_finds_in_the_table_the_very_device_that_it_opens(format: str, nodes: list[list[int]], apart: bool) -> None:
    asked = job(framework="mindspore", nodes=len(nodes), rank_table=format)
    reported = [
        facts(node, "ascend", [Device(str(id), f"192.168.{id}.{node}") for id in ids], "" if apart else "10.0.0.1")
        for node, ids in enumerate(nodes)
    ]
    world = assemble(asked, RUN, 1, reported)
    ((path, text),) = world_files(asked, world, PLACES.node).items()
    table = json.loads(text)
    if format == "lab":
        entries = [(one["rank_id"], one["devices"][0]) for one in table["group_list"][0]["instance_list"]]
    else:
        entries = [(device["rank_id"], device) for server in table["server_list"] for device in server["device"]]
    found = environments(asked, world)
    assert [(rank, device["device_id"]) for rank, device in entries] == [(env["RANK_ID"], env["DEVICE_ID"]) for env in found]
    for env, (_, device) in zip(found, entries, strict=True):
        assert device["device_ip"] == f"192.168.{env['DEVICE_ID']}.{env['RANK_INDEX']}"
        assert env["RANK_TABLE_FILE"] == env["MINDSPORE_HCCL_CONFIG_PATH"] == path


def test_a_device_without_an_address_of_its_own_is_reached_at_its_node() -> None:
    asked = job(framework="mindspore", rank_table="1.0")
    (text,) = world_files(asked, many_nodes(asked, "cpu"), PLACES.node).values()
    ips = [[device["device_ip"] for device in server["device"]] for server in json.loads(text)["server_list"]]
    assert ips == [["10.1.0.0"] * 2, ["10.1.0.1"] * 2]


# -- roles beside the ranks


def test_the_dynamic_cluster_has_one_scheduler_beside_the_ranks_of_node_0() -> None:
    asked = job(framework="mindspore", rank_table="none")
    first, second = plans(asked, two_nodes(asked, "ascend"))
    assert [process.name for process in first.processes] == ["scheduler", "rank-0", "rank-1"]
    assert [process.name for process in second.processes] == ["rank-2", "rank-3"]
    scheduler, *workers = first.processes + second.processes
    assert (scheduler.rank, scheduler.env["MS_ROLE"]) == (-1, "MS_SCHED")
    assert [worker.env["MS_ROLE"] for worker in workers] == ["MS_WORKER"] * 4
    assert [worker.env["MS_NODE_ID"] for worker in workers] == ["0", "1", "2", "3"]
    for name in ("MS_WORKER_NUM", "MS_SCHED_HOST"):
        assert len({process.env[name] for process in first.processes + second.processes}) == 1
    assert scheduler.env["MS_WORKER_NUM"] == "4"


def test_workers_are_told_the_port_that_starts_the_scheduler_and_it_listens_behind_that() -> None:
    asked = job(framework="mindspore", rank_table="none")
    scheduler, *workers = plans(asked, two_nodes(asked, "ascend"))[0].processes
    assert scheduler.gate is not None
    assert [worker.env["MS_SCHED_PORT"] for worker in workers] == [str(scheduler.gate.port)] * 2
    assert scheduler.env["MS_SCHED_PORT"] == str(scheduler.gate.inner)
    assert scheduler.gate.inner != scheduler.gate.port


@pytest.mark.parametrize(
    ("program", "python"),
    [
        ({"boot": "train.py", "python": "/opt/python"}, "/opt/python"),
        ({"command": ("python3.9", "train.py")}, "python3.9"),
        ({"command": "/opt/conda/bin/python train.py && echo done"}, "/opt/conda/bin/python"),
    ],
)
def test_a_program_is_for_ranks_alone_where_the_scheduler_has_a_python(program: dict[str, Any], python: str) -> None:
    asked = job(framework="mindspore", rank_table="none", **{"boot": "", **program})
    scheduler, *_ = plans(asked, two_nodes(asked, "ascend"))[0].processes
    assert scheduler.argv[:2] == (python, "-c")
    assert scheduler.argv[2].endswith("from mindspore.communication import init; init()")


@pytest.mark.parametrize("command", [("./start",), "source env.sh; python train.py", "$PYTHON train.py"])
def test_any_other_command_is_what_the_scheduler_runs_too(command: Any) -> None:
    asked = job(framework="mindspore", rank_table="none", boot="", command=command)
    scheduler, first, *_ = plans(asked, two_nodes(asked, "ascend"))[0].processes
    assert scheduler.argv == first.argv

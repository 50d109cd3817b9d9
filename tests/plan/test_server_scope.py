"""Every node a world of its own: what its ranks are told, and that nothing of one meets another's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from worlds import PLACES, job, two_nodes

from muster.job import Bench, Data, Job
from muster.plan import NodePlan, build, runners, world_files

SERVER = Bench(scope="server", warmup=7)
TRAIN = {"train_url": Data("obs://b/out/")}


def plans(given: Job, kind: str = "cpu") -> list[NodePlan]:
    world = two_nodes(given, kind)
    return [build(given, world, index, replace(PLACES, node=f"/run/nodes/{index}")) for index in (0, 1)]


def test_each_node_counts_its_ranks_from_nought_and_the_record_goes_on_counting() -> None:
    given = job(framework="pytorch", bench=SERVER)
    first, second = plans(given)
    assert runners(given, two_nodes(given, "cpu")) == 2
    assert [(process.name, process.rank) for process in second.processes] == [("rank-2", 2), ("rank-3", 3)]
    for plan in (first, second):
        assert [process.env["RANK"] for process in plan.processes] == ["0", "1"]
        assert {process.env["WORLD_SIZE"] for process in plan.processes} == {"2"}
    assert {process.env["MASTER_ADDR"] for process in first.processes} == {"10.0.0.1"}
    assert {process.env["MASTER_ADDR"] for process in second.processes} == {"10.0.0.2"}
    assert {process.env["MUSTER_SERVER"] for process in second.processes} == {"1"}
    assert {process.env["MUSTER_WARMUP"] for process in second.processes} == {"7"}


@pytest.mark.parametrize("url, below", [("obs://b/out/", "obs://b/out/1/"), ("obs://b/out", "obs://b/out/1")])
def test_outputs_of_nodes_do_not_meet(url: str, below: str) -> None:
    _, second = plans(job(framework="pytorch", bench=SERVER, compat="modelarts-v1", outputs={"train_url": Data(url)}))
    assert f"--train_url={below}" in second.processes[0].argv
    assert second.processes[0].env["DLS_TRAIN_URL"] == below


def test_logs_for_the_platform_keep_the_numbers_of_their_nodes() -> None:
    names = [next(iter(plan.log)) for plan in plans(job(bench=SERVER, compat="modelarts-v1", log_url="obs://b/log"))]
    assert [name.rpartition("-")[2] for name in names] == ["0.log", "1.log"]


def test_a_local_output_is_there_for_each_node() -> None:
    _, second = plans(job(bench=SERVER, compat="modelarts-v1", outputs={"train_url": Data("/data/out")}))
    assert "/data/out/1" in second.folders


def test_every_node_has_a_scheduler_of_its_own() -> None:
    first, second = plans(job(framework="mindspore", bench=SERVER))
    assert [process.name for process in first.processes if process.rank < 0] == ["scheduler-0"]
    assert [process.name for process in second.processes if process.rank < 0] == ["scheduler-1"]


def test_a_rank_table_of_its_own_names_the_node_alone() -> None:
    given = job(framework="mindspore", bench=SERVER, device="ascend")
    assert world_files(given, two_nodes(given, "ascend"), "/run") == {}
    _, second = plans(given, "ascend")
    [table] = [file for file in second.files if file.path == second.processes[0].env["RANK_TABLE_FILE"]]
    assert table.path.startswith("/run/nodes/1/")
    found = json.loads(table.text)
    assert [server["server_id"] for server in found["server_list"]] == ["10.0.0.2"]
    assert [device["rank_id"] for device in found["server_list"][0]["device"]] == ["0", "1"]


def test_a_script_with_its_own_mode_gets_global_ranks_and_a_table_that_it_may_rewrite() -> None:
    own = job(framework="mindspore", bench=SERVER, device="ascend", env={"SINGLESERVER_MODE": "True"}, outputs=TRAIN)
    assert own.own_servers
    first, second = plans(own, "ascend")
    assert [process.env["RANK_ID"] for process in second.processes] == ["2", "3"]
    assert {process.env["RANK_SIZE"] for process in second.processes} == {"4"}
    assert "MUSTER_SERVER" not in second.processes[0].env  # never both
    tables = [plan.processes[0].env["RANK_TABLE_FILE"] for plan in (first, second)]
    assert len(set(tables)) == 2
    for plan, path in zip((first, second), tables, strict=True):
        [table] = [file for file in plan.files if file.path == path]
        assert table.mode & 0o200
        assert len(json.loads(table.text)["server_list"]) == 2


@pytest.mark.parametrize("value", ["true", "1", "TRUE"])
def test_only_the_exact_word_hands_the_worlds_to_the_script(value: str) -> None:
    assert not job(bench=SERVER, env={"SINGLESERVER_MODE": value}).own_servers


@pytest.mark.parametrize("devices", [1, 2])
def test_any_number_of_devices_will_do(devices: int) -> None:
    _, second = plans(job(framework="pytorch", devices=devices, bench=SERVER))
    assert [process.rank for process in second.processes] == list(range(devices, 2 * devices))


def test_one_world_is_what_it_was() -> None:
    plain, cluster = job(framework="pytorch"), job(framework="pytorch", bench=Bench())
    world = two_nodes(plain, "cpu")
    first, second = (build(given, world, 1, PLACES) for given in (plain, cluster))
    assert [process.env["RANK"] for process in first.processes] == ["2", "3"]
    for process in second.processes:
        process.env.pop("MUSTER_WARMUP")
    second.setup_env.pop("MUSTER_WARMUP")
    assert first == second

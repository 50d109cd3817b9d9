"""The devices of a node that Slurm gave: those that it names, or as many as it counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_devices import Gpus, Npus
from on_slurm import OnSlurm, settle

from conftest import Muster, WriteJob
from slurm_cluster import Cluster
from slurm_site.configuration import Nodes

MakeSite = Callable[..., Cluster]
SEEN = "echo $MUSTER_NODE ${CUDA_VISIBLE_DEVICES}${ASCEND_RT_VISIBLE_DEVICES}"


@pytest.fixture
def seen(
    slurm_site: MakeSite, muster: Muster, write_job: WriteJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, list[str]]]:
    """Runs a job on a site of nodes like these; returns how it ended and which devices each node had."""

    def call(nodes: Nodes, fields: dict[str, object], env: dict[str, str]) -> tuple[str, list[str]]:
        site = slurm_site(nodes)
        settle(site, home, monkeypatch)
        run = OnSlurm(site, muster, write_job({"command": SEEN, **fields}), **env)
        return run.end()["reason"], sorted(run.logs().splitlines())

    return call


def test_ranks_have_the_gpus_that_slurm_names(seen: Callable[..., tuple[str, list[str]]], tmp_path: Path) -> None:
    gpus = Gpus(tmp_path / "machine", 4)
    gpus.used_by({0: os.getpid(), 1: os.getpid()})  # whoever else is on a device: it was given to this job
    _, devices = seen(Nodes(count=2, gres="gpu:4"), {"nodes": 2, "device": "nvidia", "devices": 2}, gpus.env)
    assert devices == ["0 0,1", "1 0,1"]


def test_of_devices_that_slurm_only_counts_each_node_takes_free_ones(
    seen: Callable[..., tuple[str, list[str]]], tmp_path: Path
) -> None:
    npus = Npus(tmp_path / "machine", *range(8))
    nodes = Nodes(count=2, gres="npu:8", files=False)
    _, devices = seen(nodes, {"nodes": 2, "device": "ascend", "devices": 4}, npus.env)
    assert {line[2:] for line in devices} == {"0,1,2,3", "4,5,6,7"}  # both nodes are this machine, with eight in all


@pytest.mark.parametrize(
    ("there", "asked", "words"),
    [((0, 1), 4, "4 ascend devices, and it shows 2"), ((), 1, "1 ascend device, and it shows none")],
)
def test_a_node_that_shows_fewer_devices_than_it_was_given_for_is_named(
    seen: Callable[..., tuple[str, list[str]]], tmp_path: Path, there: tuple[int, ...], asked: int, words: str
) -> None:
    npus = Npus(tmp_path / "machine", *there)
    reason, devices = seen(Nodes(count=1, gres="npu:8", files=False), {"device": "ascend", "devices": asked}, npus.env)
    assert f"(node1): the job asks for {words}" in reason
    assert reason.endswith("or set `device: cpu`")
    assert devices == []

"""Which devices a node gets: what the drivers show, and the rule of the rings of an Ascend 910."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_devices import Gpus, Machine, Npus
from hypothesis import given
from hypothesis import strategies as st

from muster import devices
from muster.devices import DeviceInfo, ascend, cpu, nvidia

PREFERRED = {1: (1, 3, 2, 4), 2: (2, 4, 3), 4: (4,)}  # how many of a ring are free, the best first


def be(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)


# -- what is there


def test_nvidia_devices_are_what_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Gpus(tmp_path / "m", 2)
    be(machine, monkeypatch)
    assert nvidia.found() == [DeviceInfo(str(index), "NVIDIA A100-SXM4-40GB", machine.ids[index]) for index in (0, 1)]
    machine.used_by({1: 4711})
    assert nvidia.users() == {machine.ids[1]: [4711]}


def test_a_tool_that_fails_shows_no_devices_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be(Machine(tmp_path / "m"), monkeypatch)
    said: list[str] = []
    assert devices.found("nvidia", said.append) == []
    assert said == ["nvidia-smi does not work: code 9"]
    for users in (nvidia.users, ascend.users):
        with pytest.raises(devices.DriverError):
            users()


def test_a_tool_that_is_not_there_shows_no_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (nvidia.found(), nvidia.users(), ascend.users()) == ([], {}, {})


def test_what_has_the_name_of_a_tool_and_is_no_program_is_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert (devices.found("nvidia", said.append), said) == ([], [])


def test_words_of_nvidia_smi_that_are_no_devices_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path / "m")
    be(machine, monkeypatch)
    machine.tool("nvidia-smi", "#!/bin/sh\necho No devices were found\necho 'GPU-1, [Not Found]'\necho\n")
    assert (nvidia.found(), nvidia.users()) == ([], {})


def test_ascend_devices_are_the_files_of_the_driver_with_their_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(Npus(tmp_path / "m", 0, 2, 10), monkeypatch)
    assert [(device.id, device.ip) for device in ascend.found()] == [
        ("0", "192.168.0.1"),
        ("2", "192.168.2.1"),
        ("10", "192.168.10.1"),
    ]
    assert len({device.unique for device in ascend.found()}) == 3


def test_ascend_devices_without_addresses_are_devices_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Npus(tmp_path / "m", 0, 1)
    be(machine, monkeypatch)
    (tmp_path / "m/root/etc/hccn.conf").unlink()
    assert [device.ip for device in ascend.found()] == ["", ""]


@pytest.mark.parametrize("name", ["python3", "", "VLLM::EngineCore", "python3 train"])
def test_the_processes_of_npu_smi_are_seen_whatever_they_are_called(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Npus(tmp_path / "m", *range(8))
    be(machine, monkeypatch)
    machine.used_by({3: 4711, 5: 815}, name)
    names = {device.unique: device.id for device in ascend.found()}
    assert {names[unique]: pids for unique, pids in ascend.users().items()} == {"3": [4711], "5": [815]}


def test_auto_takes_the_accelerators_of_the_machine_and_the_cpu_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(Machine(tmp_path / "none"), monkeypatch)
    assert devices.resolve("auto") == "cpu"
    be(Npus(tmp_path / "npus", 0), monkeypatch)
    assert devices.resolve("auto") == "ascend"
    be(Gpus(tmp_path / "gpus", 1), monkeypatch)
    assert devices.resolve("auto") == "nvidia"
    assert [devices.resolve(kind) for kind in devices.KINDS] == list(devices.KINDS)  # what is asked for is what is meant


# -- how many, and which


def npus(ids: set[int]) -> list[DeviceInfo]:
    return [DeviceInfo(str(id), unique=f"davinci{id}") for id in sorted(ids)]


def by_ring(found: list[DeviceInfo]) -> dict[int, int]:
    rings = [int(device.id) // 4 for device in found]
    return {ring: rings.count(ring) for ring in rings}


@given(free=st.sets(st.integers(0, 7)), count=st.sampled_from([1, 2, 4]))
def test_a_node_gets_devices_of_one_ring_and_of_the_ring_that_suits_best(free: set[int], count: int) -> None:
    there = npus(free)
    chosen = ascend.choose(there, count)
    rings = by_ring(there)
    if not any(number >= count for number in rings.values()):
        assert chosen is None
        return
    assert chosen is not None
    assert len({device.id for device in chosen}) == count
    assert set(chosen) <= set(there)
    assert len(by_ring(chosen)) == 1
    best = next(number for number in PREFERRED[count] if number in rings.values())
    assert rings[next(iter(by_ring(chosen)))] == best


@given(free=st.sets(st.integers(0, 15)))
def test_eight_devices_are_a_whole_node_and_never_more(free: set[int]) -> None:
    chosen = ascend.choose(npus(free), 8)
    assert (chosen is None) == (len(free) < 8)
    assert chosen is None or len(set(chosen)) == 8


def test_no_other_count_of_ascend_devices_is_possible() -> None:
    assert [count for count in range(1, 17) if not ascend.impossible(count)] == [1, 2, 4, 8]
    assert "1, 2 or 4" in ascend.impossible(3)
    for count in (3, 5, 6, 7, 9, 16):
        assert ascend.choose(npus(set(range(16))), count) is None


@given(
    free=st.sets(st.integers(0, 7)),
    nodes=st.integers(1, 8),
    count=st.sampled_from([1, 2, 4]),
    kind=st.sampled_from(["ascend", "nvidia"]),
)
def test_nodes_never_share_a_device_and_all_get_theirs_whenever_that_is_possible(
    free: set[int], nodes: int, count: int, kind: str
) -> None:
    there = npus(free)
    shares = devices.share(kind, there, nodes, count)
    groups = by_ring(there).values() if kind == "ascend" else [len(there)]
    possible = sum(number // count for number in groups) >= nodes
    assert (shares is not None) == possible
    if shares is not None:
        given_out = [device for node in shares for device in node]
        assert [len(node) for node in shares] == [count] * nodes
        assert len(set(given_out)) == nodes * count
        assert set(given_out) <= set(there)


@given(nodes=st.integers(1, 5), count=st.integers(1, 20))
def test_simulated_devices_are_as_many_as_anybody_asks_for(nodes: int, count: int) -> None:
    shares = devices.share("cpu", cpu.found(), nodes, count)
    assert shares is not None
    assert [[device.id for device in node] for node in shares] == [[str(index) for index in range(count)]] * nodes

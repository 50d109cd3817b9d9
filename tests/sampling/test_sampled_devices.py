"""Samples of devices: each GPU with every sample, NPUs when npu-smi has been asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_devices import Npus
from fake_nvml import compiled
from sampled import IDLE, Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import until

GPUS = {"device": "nvidia", "devices": [{"id": "0", "ip": ""}, {"id": "1", "ip": ""}]}


def test_gpus_are_in_every_sample_and_described(sample: Start, tmp_path: Path) -> None:
    env = compiled(tmp_path)
    if env is None:
        pytest.skip("there is no C compiler")
    sampled = sample(facts=GPUS, **env)
    until(lambda: sampled.system)
    sampled.start_ranks()
    assert sampled.end() == 0
    assert sampled.header["devices"] == "nvml"
    assert sampled.header["missing"]["devices.energy"] == "GPU 1: Not Supported"
    for line in sampled.samples:
        assert line["devices"]["0"]["power"] == 98.765
        assert "energy" not in line["devices"]["1"]
    energies = [line["devices"]["0"].get("energy") for line in sampled.samples]
    known = [energy for energy in energies if energy is not None]
    assert known == sorted(set(known))
    assert None not in (energies[0], energies[-1])
    assert [device["uuid"] for device in sampled.system["devices"]] == ["GPU-0", "GPU-1"]
    assert (sampled.system["driver"], sampled.system["runtime"]) == ("570.86.15", "CUDA 12.8")


def test_npus_are_in_lines_of_their_own_with_the_time_at_which_npu_smi_told(sample: Start, tmp_path: Path) -> None:
    machine = Npus(tmp_path / "machine", 0)
    sampled = sample(IDLE, facts={"device": "ascend", "devices": [{"id": "0", "ip": ""}]}, **machine.env)
    sampled.until_slow_things_are_done()
    assert sampled.end() == 0
    assert sampled.header["devices"] == "npu-smi"
    found = [line for line in sampled.samples if "devices" in line]
    assert found and all(set(line) == {"t", "devices"} for line in found)
    assert found[0]["devices"] == {"0": {"util": 0.0, "mem": 4152 << 20, "power": 93.6, "temp": 40.0}}
    assert sampled.system["devices"][0]["name"] == "910B3"
    assert sampled.system["missing"]["driver"] == "npu-smi does not report it"


def test_devices_whose_driver_does_not_work_are_missing_with_the_reason(sample: Start, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    sampled = sample(facts=GPUS, LD_LIBRARY_PATH=str(tmp_path), PATH=os.environ["PATH"])
    until(lambda: sampled.system)
    sampled.start_ranks()
    assert sampled.end() == 0
    assert sampled.header["devices"] is None
    assert sampled.header["missing"]["devices"].startswith("NVML cannot be loaded: ")
    assert not [line for line in sampled.samples if "devices" in line]

"""Reading NVIDIA GPUs through NVML, against a library that stands in for the driver's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from fake_nvml import compiled

READ = """
import json, sys
from muster.devices import Unmeasured, open_meter
try:
    meter = open_meter("nvidia", [word for word in sys.argv[1:] if word != "some"])
except Unmeasured as error:
    sys.exit(str(error))
found = [{id: reading.known() for id, reading in meter.read("some" not in sys.argv).items()} for _ in range(4)]
devices = [device._asdict() for device in meter.describe()]
told = {"readings": found, "devices": devices, "missing": meter.missing, "runtime": meter.runtime}
print(json.dumps(told))
meter.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    env = compiled(tmp_path_factory.mktemp("nvml"))
    if env is None:
        pytest.skip("there is no C compiler")
    return env


def ask(env: dict[str, str], *ids: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", READ, *ids], capture_output=True, text=True, env={**os.environ, **env})


def told(env: dict[str, str], *ids: str) -> dict[str, Any]:
    done = ask(env, *ids)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_gpu_is_read_in_units_that_people_use(library: dict[str, str]) -> None:
    found = told(library, "0")
    first, second, *_ = (reading["0"] for reading in found["readings"])
    assert first == {"util": 97.0, "mem": float(7 << 32), "power": 98.765, "temp": 41.0, "energy": 5001.5}
    assert second["energy"] - first["energy"] == 1.5
    assert found["missing"] == {}


def test_what_a_gpu_does_not_support_is_left_out_with_the_reason(library: dict[str, str]) -> None:
    found = told(library, "0", "1")
    for reading in found["readings"]:
        assert reading["1"] == {"mem": float(7 << 33), "power": 98.766, "temp": 42.0}
        assert set(reading["0"]) == {"util", "mem", "power", "temp", "energy"}
    assert found["missing"] == {"util": "GPU 1: Not Supported", "energy": "GPU 1: Not Supported"}


def test_the_costly_counter_is_read_of_one_gpu_after_another(library: dict[str, str]) -> None:
    readings = told(library, "some", "0", "1")["readings"]
    with_counter = [[id for id, reading in each.items() if "energy" in reading] for each in readings]
    assert with_counter == [["0"], [], ["0"], []]  # it was the turn of the other one, which has none
    assert all("power" in reading for each in readings for reading in each.values())


def test_gpus_are_described(library: dict[str, str]) -> None:
    found = told(library, "0", "GPU-1")
    assert found["runtime"] == "CUDA 12.8"
    common = {"name": "NVIDIA H200", "memory": 150754820096, "driver": "570.86.15"}
    assert found["devices"] == [{"id": "0", "uuid": "GPU-0", **common}, {"id": "GPU-1", "uuid": "GPU-1", **common}]


def test_a_gpu_that_is_not_there_and_a_driver_that_does_not_work_are_told(library: dict[str, str]) -> None:
    assert ask(library, "7").stderr == "NVML does not find GPU 7: Not Found\n"
    assert ask({**library, "FAKE_NVML_BROKEN": "1"}, "0").stderr == "NVML does not start: Driver Not Loaded\n"


def test_a_machine_without_the_driver_says_so(tmp_path: Any) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    said = ask({"LD_LIBRARY_PATH": str(tmp_path)}, "0").stderr
    assert said.startswith("NVML cannot be loaded: ")


def test_the_module_shows_what_it_reads(library: dict[str, str]) -> None:
    words = [sys.executable, "-m", "muster.devices.nvml", "0", "1"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **library})
    assert done.returncode == 0, done.stderr
    assert "98.765" in done.stdout and "NVIDIA H200" in done.stdout

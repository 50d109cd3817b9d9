"""One benchmark with everything in it: each way to report, each of AISBench's phases, and the energy of a device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_devices import Gpus
from fake_nvml import compiled

from conftest import Muster, WriteJob

FOUR_WAYS = """
    import os
    from muster import record
    rank = int(os.environ["MUSTER_RANK"])
    if rank == 0:
        record.metric("throughput", 1.5, unit="samples/s")
    elif rank == 1:
        with open(os.path.join(os.environ["MUSTER_RESULTS"], "throughput_1.json"), "w") as file:
            file.write("20.25")
    elif rank == 2:
        record.mllog("throughput", 300.0)
    else:
        print("done, 4,000.5 images/s")
"""
PHASES = """
    import time
    from muster import record
    for name in ("prepare", "dataload"):
        with record.phase(name):
            time.sleep(0.01)
    with record.timer(10) as timer:
        for step in range(6):
            time.sleep(0.1)
            timer.step()
"""
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def bench(muster: Muster, job: Path, *words: object, **env: str) -> dict[str, Any]:
    done = muster("bench", job, "--json", *words, **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_numbers_that_were_reported_in_four_ways_are_in_one_record(muster: Muster, write_job: WriteJob) -> None:
    metrics = {"throughput": {"pattern": r"([\d,.]+) images/s"}}
    job = write_job({"nodes": 2, "devices": 2, "per": "device", "metrics": metrics}, **{"train.py": FOUR_WAYS})
    found = bench(muster, job)
    ranks = found["runs"][0]["metrics"]["throughput"]["ranks"]
    assert [(rank["value"], rank["source"]) for rank in ranks] == [
        (1.5, "record"),
        (20.25, "throughput_1.json"),
        (300.0, "mllog"),
        (4000.5, "pattern"),
    ]
    assert found["metrics"]["throughput"]["value"] == 1.5 + 20.25 + 300.0 + 4000.5


def test_all_phases_of_aisbench_have_their_real_times(muster: Muster, write_job: WriteJob) -> None:
    found = bench(muster, write_job({"bench": {}}, **{"train.py": PHASES}))
    info = found["train_result_info"]
    phases = [info[f"{name}_{edge}_time"] for name in ("prepare", "dataload", "proc") for edge in ("start", "end")]
    assert all(TIME.fullmatch(time) for time in phases)
    times = [info["total_start_time"], *phases, info["total_end_time"]]
    assert times == sorted(times)


def test_the_energy_of_a_device_is_in_the_result(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    """The device of the test uses 1.5 J between two looks at it, and is busy for 97 % of the time."""
    library = compiled(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler")
    fields = {"device": "nvidia", "devices": 1, "sample": "0.3s", "bench": {"idle": "2s"}}
    env = {**library, **Gpus(tmp_path / "machine", 1).env}
    found = bench(muster, write_job(fields, **{"train.py": PHASES.replace("range(6)", "range(15)")}), **env)
    power, run = found["power"], found["runs"][0]
    assert (power["of"], power["method"], power["utilisation"]) == ("devices", "counters", 97.0)
    assert power["idle"] == power["max"] == pytest.approx(98.765)
    assert run["power"]["window"]["phase"] == "proc"
    assert power["joules"] > 0 and power["samples_per_joule"] == 150 / power["joules"]
    assert power["average"] == power["joules"] / run["phases"]["proc"]["seconds"]
    info = found["train_result_info"]
    assert (info["energy_consumption"], info["efficientcy"]) == (power["joules"], power["samples_per_joule"])
    assert found["provenance"]["nodes"][0]["devices"][0]["name"] == "NVIDIA H200"

"""system.json: what the machine is, and what the job runs on."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from sampled import IDLE, Start
from sampled import archive as archive
from sampled import sample as sample

from conftest import Muster, WriteJob, until
from muster.agent.sampler import hardware, software
from muster.devices import Unmeasured

SLEEP = "import time; time.sleep(600)"


def interpreter(folder: Path, *packages: str) -> Path:
    """An environment with packages that are nothing but their names: importing one would fail."""
    site = folder / "env/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    for package in packages:
        (site / package).mkdir()
    home = os.path.dirname(os.path.realpath(sys.executable))
    (folder / "env/pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (folder / "env/bin").mkdir()
    (folder / "env/bin/python").symlink_to(os.path.realpath(sys.executable))
    return folder / "env/bin/python"


def test_the_machine_is_described(sample: Start) -> None:
    sampled = sample()
    system = until(lambda: sampled.system)
    assert (system["host"], system["kernel"], system["arch"]) == ("node-0", platform.release(), platform.machine())
    assert system["cpu"]["threads"] == os.cpu_count()
    assert system["memory"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert system["machine"] == hardware.machine_id()
    assert all(entry["speed"] is None or entry["speed"] > 0 for entry in system["network"])
    assert "lo" not in {entry["name"] for entry in system["network"]}
    for name in ("driver", "runtime", "python"):
        assert (system[name] is None) == (name in system["missing"])


def test_python_and_packages_are_those_of_the_job(sample: Start, tmp_path: Path) -> None:
    python = interpreter(tmp_path, "torch-2.13.0+cpu.dist-info", "torch_npu-2.1.0.dist-info", "other-1.0.dist-info")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "numpy-9.9.egg-info").mkdir(parents=True)
    sampled = sample({"0": [str(python), "-c", SLEEP]}, PYTHONPATH=str(elsewhere))
    sampled.start_ranks()
    system = sampled.until_asked()
    assert system["python"] == platform.python_version()
    assert system["packages"] == {"numpy": "9.9", "torch": "2.13.0+cpu", "torch-npu": "2.1.0"}
    assert not {"python", "packages", "environment"} & set(system["missing"])


def test_a_script_is_asked_for_the_python_that_it_starts_in_the_environment_that_it_made(sample: Start, tmp_path: Path) -> None:
    python = interpreter(tmp_path, "mindspore-2.10.0.dist-info")
    script = f'export PATH={python.parent}:$PATH HCCL_EXEC_TIMEOUT=1800; sleep 0.2; python -c "{SLEEP}" & wait'
    sampled = sample({"0": ["bash", "-c", script]}, interval=1.0)
    sampled.start_ranks()
    system = sampled.until_asked()
    assert system["packages"] == {"mindspore": "2.10.0"}
    assert system["environment"]["HCCL_EXEC_TIMEOUT"] == "1800"


def test_a_job_without_python_is_told_the_one_on_its_path_or_none(sample: Start, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sleep", "bash"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    sampled = sample({"0": ["/usr/bin/env", f"PATH={tmp_path}/bin", "sleep", "600"]})
    sampled.start_ranks()
    reason = until(lambda: sampled.system and "PATH" in sampled.system["missing"].get("packages", ""))
    assert reason
    assert sampled.system["missing"]["python"] == "the job has no Python on its PATH"
    assert (sampled.system["python"], sampled.system["packages"]) == (None, {})


def test_variables_that_matter_are_told_and_secrets_are_not(sample: Start) -> None:
    told = {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "0", "HOROVOD_FUSION_THRESHOLD": "1"}
    kept = {
        "NCCL_API_TOKEN": "one",
        "MS_LICENSE": "two",
        "TORCH_WEBHOOK": "https://example/three",
        "MY_OWN": "four",
        "ASCEND_SECRET_KEY": "five",
    }
    sampled = sample(IDLE, plan={"secrets": ["MS_LICENSE"]}, **told, **kept)
    sampled.start_ranks()
    environment = sampled.until_asked()["environment"]
    assert {name: environment.get(name) for name in told} == told
    assert not set(kept) & set(environment)


def test_a_python_that_does_not_answer_is_the_reason(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\necho nonsense\n")
    silent.chmod(0o755)
    with pytest.raises(Unmeasured, match="does not list its packages"):
        software.packages(software.Program(str(silent), {}))


# Busy until the sampler of its node has asked for its Python, and for some time after that.
UNTIL_DESCRIBED = """
import json, os, time
described = os.path.join(os.path.dirname(os.environ["MUSTER_RESULTS"]), "system.json")
while not (os.path.exists(described) and json.load(open(described))["python"]):
    pass
enough = time.process_time() + 1
while time.process_time() < enough:
    pass
"""


@pytest.mark.long
def test_the_record_of_a_run_holds_samples_and_description_of_each_node(
    containment: str, muster: Muster, write_job: WriteJob
) -> None:
    job = write_job({"nodes": 2, "devices": 2, "framework": "pytorch", "sample": "0.1s"}, **{"train.py": UNTIL_DESCRIBED})
    brief: dict[str, Any] = json.loads(muster("run", job, "--json").stdout)
    assert brief["state"] == "succeeded"
    machines = set()
    for index, ranks in ((0, {"0", "1"}), (1, {"2", "3"})):
        folder = Path(brief["dir"]) / "attempts/1/nodes" / str(index)
        header, *samples = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert set().union(*(line.get("ranks", {}) for line in samples)) == ranks
        assert max(line.get("procs_cpu", 0) for line in samples) > 5
        system = json.loads((folder / "system.json").read_text())
        assert system["python"] == platform.python_version()
        machines |= {system["machine"], header["machine"]}
    assert len(machines) == 1

"""AISBench's own scripts for ModelArts, unchanged, with the old `modelarts` package against a real server.

They are not part of this repository: MUSTER_AISBENCH names a checkout of Ascend's `tools`, which has `ais-bench_workload`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modelarts_scene import CPU, Client, new_client, served
from modelarts_scene import collected as collected
from packages import written

from muster.cli.moxing_path_command import placed

TOOLS = Path(os.environ.get("MUSTER_AISBENCH") or "/nonexistent") / "ais-bench_workload/src"
pytestmark = pytest.mark.skipif(not TOOLS.is_dir(), reason="MUSTER_AISBENCH names no checkout of Ascend's tools")
VERSIONS = {"V1": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64", "V2": "mindspore_1.3.0-cann_5.0.2-py_3.7"}
ENGINES = "".join(
    f'[modelarts.engines."{version}"]\nframework = "command"\nname = "Ascend-Powered-Engine"\nversion = "{version}"\n'
    for version in VERSIONS.values()
)
# What their Python has beside the package: settings as attributes, a place for results, and no patience.
BESIDE = {
    "easydict.py": "class EasyDict(dict):\n    __getattr__ = dict.__getitem__\n",
    "set_result.py": "def set_result(mode, key, value):\n    print('result', mode, key, value)\n",
    "sitecustomize.py": "import time\nslept = time.sleep\ntime.sleep = lambda seconds: slept(min(seconds, 0.2))\n",
}
TRAIN = """
import os, sys, time
import moxing as mox
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
server = int(os.environ.get("VC_TASK_INDEX") or os.environ["BATCH_TASK_INDEX"])
place = given["train_url"].rstrip("/")
time.sleep(float(given["seconds"]))
if os.environ.get("SINGLESERVER_MODE") == "True":
    for rank in range(8):
        mox.file.make_dirs(f"{place}/{server}")
        mox.file.write(f"{place}/{server}/throughput_{rank}.json", str(100.0 + server))
    mox.file.write(f"{place}/accuracy_{server}.json", "0.75")
elif server == 0:
    for name, value in {"throughput_0": 21.5, "throughput_1": 20.5, "accuracy": 0.5, "ranksize": 2}.items():
        mox.file.write(f"{place}/{name}.json", str(value))
"""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(config=ENGINES) as scene:
        made = new_client(scene)
        made.put("data/number.txt", "21")
        yield made


@pytest.fixture
def package(tmp_path: Path) -> Path:
    code = tmp_path / "package/code"
    for folder in ("common", "config", "code"):
        (code / folder).mkdir(parents=True)
    for name in ("train_modelarts.py", "modelarts_handler.py", "modelarts_handler_v2.py"):
        shutil.copy(TOOLS / "common" / name, code / "common")
    shutil.copy(TOOLS / "ais_utils_adapter.py", code / "ais_utils.py")
    (code / "code/train.py").write_text(TRAIN)
    for name, text in BESIDE.items():
        (tmp_path / name).write_text(text)
    return code


def configure(package: Path, client: Client, name: str, nodes: int, seconds: str = "0") -> None:
    server, at = client.scene.server, f"/{client.bucket}"
    keys = {"access_key": client.key, "secret_access_key": client.secret, "project_id": client.project_id}
    places = {"server": server.store, "iam_endpoint": server.url, "obs_endpoint": server.store}
    access = {**keys, **places, "modelarts_endpoint": server.url, "region_name": "here"}
    session: dict[str, Any] = {"inputs": f"{at}/data/", "code_dir": f"{at}/resnet/", "boot_file": f"{at}/resnet/train.py"}
    session.update({"job_name": name, "framework_type": "Ascend-Powered-Engine", "pool_id": None, "train_instance_type": CPU})
    session.update({"train_instance_count": nodes, "out_base_url": f"{at}/result/", "job_description_prefix": "d"})
    old = {**session, "framework_version": VERSIONS["V1"], "hyperparameters": [{"label": "seconds", "value": seconds}]}
    new = {**session, "framework_version": VERSIONS["V2"], "parameters": [{"name": "seconds", "value": seconds}]}
    sections = {"access_config": access, "session_config": old, "session_config_v2": new}
    texts = [written(name, fields) for name, fields in sections.items()]
    (package / "config/modelarts_config.py").write_text("\n".join(["from easydict import EasyDict as ed", *texts]))


def started(package: Path, home: Path, *words: str) -> subprocess.Popen[str]:
    home.mkdir(exist_ok=True)
    path = f"{placed(home, sys.executable)}:{package.parents[1]}"
    env = {**os.environ, "PYTHONPATH": path, "BASE_PATH": str(package.parent), "PYTHONUNBUFFERED": "1"}
    (package.parent / "log").mkdir(exist_ok=True)
    argv = [sys.executable, str(package / "common/train_modelarts.py"), *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("single", [False, True], ids=["together", "each server alone"])
def test_a_run_ends_with_its_result_lines(package: Path, home: Path, client: Client, version: str, single: bool) -> None:
    (package / "code/ma-pre-start.sh").write_text("export SINGLESERVER_MODE=True\n" if single else "")
    configure(package, client, f"Aisbench_{version}", 2)
    words = ["--local_code_path", str(package / "code"), "--modelarts_version", version]
    with started(package, home, *words, *(["--single_server_mode"] if single else [])) as process:
        said = process.communicate(timeout=100)[0]
    assert process.returncode == 0, said
    throughput, accuracy = (804.0, 0.75) if single else (42.0, 0.5)
    assert f"result training throughput_ratio {throughput}\n" in said and f"result training accuracy {accuracy}\n" in said
    assert len(list((package.parent / "log").glob("*-[01].log"))) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_is_stopped(package: Path, home: Path, client: Client, version: str) -> None:
    configure(package, client, f"stopped-{version}", 1, "600")
    words = ["--modelarts_version", version]
    job = "None"
    with started(package, home, *words, "--local_code_path", str(package / "code")) as process:
        assert process.stdout is not None
        for line in process.stdout:
            job = line.split("job_id:")[1].split()[0] if "job_id:" in line else job
            if "RUNNING" in line or "phase Running" in line:
                break
        with started(package, home, *words, "--action", "stop", "--job_id", job) as stop:
            assert "stop status:" in stop.communicate(timeout=60)[0]
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and ("JOBSTAT_KILL" in said or "phase Terminated" in said), said

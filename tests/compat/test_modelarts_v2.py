"""`compat: modelarts-v2`: a script finds what the newer containers of that platform have around it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from behaviour import no_namespaces
from conftest import WriteJob
from traces import RunJson, logs, put, said, stored, told

contained = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")

TELL = """
import json, os, socket, sys
data, out = sys.argv[1].split("=")[1], os.environ["train_url"]
with open(out + "/from-" + os.environ["VC_TASK_INDEX"], "w") as file:
    file.write(open(data + "/1.bin").read())
names = os.environ["VC_WORKER_HOSTS"].split(",")
volcano = os.environ["MA_VJ_NAME"] + "-" + os.environ["MA_TASK_NAME"] + "-0." + os.environ["MA_VJ_NAME"]
print(json.dumps({
    "argv": sys.argv,
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "host": socket.gethostname(),
    "addresses": [socket.gethostbyname(name) for name in names],
    "log": os.path.isdir(os.environ["MA_LOG_DIR"]),
    "volcano": socket.gethostbyname(volcano) if %s else None,
}))
"""
DATA = {
    "inputs": {"data_url": "obs://b/cifar"},
    "outputs": {"train_url": {"url": "obs://b/out", "access": "env"}},
    "log_url": "obs://b/log",
}


def variables(rank: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in rank["env"].items() if name.startswith(("MA_", "VC_", "VK_")) or name == "WORKSPACE"}


@pytest.mark.conformance(not_on_server="it puts data into the submitter's store")
@contained
def test_every_variable_and_place_of_two_nodes(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"cifar/1.bin": "one", "apps/resnet/train.py": TELL % True})
    fields = {"compat": "modelarts-v2", "code": "obs://b/apps/resnet", "boot": "train.py", "nodes": 2, "devices": 2, **DATA}
    view = run_json(write_job({**fields, "framework": "pytorch", "parameters": {"epochs": 3}}))
    ranks = told(view)
    assert len(ranks) == 4
    home = "/home/ma-user"
    for number, rank in enumerate(ranks):
        identity = rank["env"]["JOB_ID"]
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}", identity)
        name = f"modelarts-job-{identity}"
        addresses = rank["env"]["MUSTER_HOSTS"].split(",")
        assert variables(rank) == {
            "MA_HOME": home,
            "MA_MOUNT_PATH": f"{home}/modelarts",
            "MA_JOB_DIR": f"{home}/modelarts/user-job-dir",
            "MA_LOG_DIR": f"{home}/modelarts/log",
            "WORKSPACE": f"{home}/modelarts/user-job-dir/resnet",
            "MA_SCRIPT_INTERPRETER": view["job"]["python"],
            "MA_CURRENT_IP": addresses[number // 2],
            "MA_NUM_GPUS": "2",
            "MA_NUM_HOSTS": "2",
            "MA_TASK_NAME": "worker",
            "MA_VJ_NAME": f"ma-job-{identity}",
            "MA_CURRENT_INSTANCE_NAME": f"{name}-worker-{number // 2}",
            "VC_TASK_INDEX": str(number // 2),
            "VK_TASK_INDEX": str(number // 2),
            "VC_WORKER_NUM": "2",
            "VC_WORKER_HOSTS": f"{name}-worker-0.{name},{name}-worker-1.{name}",
        }
        assert rank["argv"] == [
            f"{home}/modelarts/user-job-dir/resnet/train.py",
            f"--data_url={home}/modelarts/inputs/data_url_0",
            "--epochs=3",
        ]
        assert rank["env"]["train_url"] == f"{home}/modelarts/outputs/train_url_0"
        assert rank["cwd"] == f"{home}/modelarts/user-job-dir/resnet"
        assert f"{home}/modelarts/user-job-dir" in rank["env"]["PYTHONPATH"].split(":")
        assert rank["addresses"] == addresses and rank["volcano"] == addresses[0]
        assert rank["host"] == f"{name}-worker-{number // 2}"
        assert rank["log"]
    assert stored("obs://b/out") == {"from-0": "one", "from-1": "one"}
    texts = said(view)
    expected = {f"{name}-worker-{node}.log": texts[2 * node] + texts[2 * node + 1] for node in (0, 1)}
    expected |= {f"{name}-proc-rank-{rank}-device-{rank % 2}.txt": text for rank, text in enumerate(texts)}
    assert stored("obs://b/log") == expected


PRESENT = """
import json, os, socket, time
names = ["MA_TASK_NAME", "MA_CURRENT_INSTANCE_NAME", "VC_TASK_INDEX", "VK_TASK_INDEX", "VC_WORKER_HOSTS"]
print(json.dumps([socket.gethostname(), *(os.environ[name] for name in names)]), flush=True)
time.sleep(2 if int(os.environ["MUSTER_RANK"]) >= 0 else 1000)
"""


@pytest.mark.long
@contained
def test_parameter_servers_are_tasks_of_their_own(run_json: RunJson, write_job: WriteJob) -> None:
    fields = {"compat": "modelarts-v2", "framework": "tensorflow", "nodes": 2, "ps": 1, "log_url": "obs://b/log"}
    view = run_json(write_job(fields, **{"train.py": PRESENT}))
    assert view["state"] == "succeeded"
    found = {name: text for name, text in stored("obs://b/log").items() if name.endswith(".log")}
    for name, task, index in [("worker-0", "worker", "0"), ("worker-1", "worker", "1"), ("ps-0", "ps", "0")]:
        (log,) = (text for file, text in found.items() if file.endswith(f"-{name}.log"))
        host, *told, hosts = json.loads(log.splitlines()[-1])
        assert host.startswith("modelarts-job-") and host.endswith(f"-{name}")
        assert (told, hosts.count("-worker-")) == ([task, host, index, index], 2)
    assert len(found) == 3


def test_several_inputs_and_outputs_have_numbers(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"cifar/1.bin": "one", "more/2.bin": "two"})
    train = """
    import os, sys
    print(*[word.partition("/modelarts/")[2] for word in sys.argv[1:]])
    print([os.listdir(word.split("=")[1]) for word in sys.argv[1:]], os.environ["MA_HOME"].endswith("/home/ma-user"))
    """
    fields = {"inputs": {"a": "obs://b/cifar", "b": "obs://b/more"}, "outputs": {"c": "obs://b/c", "d": "obs://b/d"}}
    view = run_json(write_job({"compat": "modelarts-v2", **fields}, **{"train.py": train}))
    assert said(view)[0].splitlines() == [
        "inputs/a_0 inputs/b_1 outputs/c_0 outputs/d_1",
        "[['1.bin'], ['2.bin'], [], []] True",
    ]


def test_without_namespaces_names_are_addresses(run_json: RunJson, write_job: WriteJob, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[local]\nnamespaces = false\n")
    put(**{"cifar/1.bin": "one"})
    ranks = told(run_json(write_job({"compat": "modelarts-v2", "nodes": 2, **DATA}, **{"train.py": TELL % False})))
    for rank in ranks:
        assert rank["env"]["VC_WORKER_HOSTS"] == rank["env"]["MUSTER_HOSTS"]
        assert rank["log"] and rank["cwd"] == rank["env"]["WORKSPACE"]
    assert len({rank["env"]["MA_HOME"] for rank in ranks}) == 2


def wheel(folder: Path, name: str) -> str:
    """A package that needs no network to be installed; returns the name of its file."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "WORD = 'installed'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(inner, text)
    return path.name


@pytest.mark.long
def test_required_packages_are_there_and_only_there(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    name = "muster_test_package"
    train = f"""
    import json, yaml, {name}
    print(json.dumps([{name}.WORD, {name}.__file__]))
    """
    job = write_job(
        {"compat": "modelarts-v2", "nodes": 2, "boot": "src/train.py"},
        **{"src/train.py": train, "src/pip-requirements.txt": f"./src/{name}-1.0-py3-none-any.whl\n"},
    )
    assert wheel(job.parent / "src", name) == f"{name}-1.0-py3-none-any.whl"
    view = run_json(job, PIP_NO_INDEX="1")
    words = told(view)
    assert [word for word, _ in words] == ["installed"] * 2
    assert all("/home/ma-user/pip-packages/lib/" in path for _, path in words)
    absent = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True)
    assert absent.returncode == 1, "the user's own environment is as it was"
    assert "Successfully installed" in logs(view, "setup")[0]


@pytest.mark.long
def test_what_only_the_python_below_the_programs_environment_has_is_installed(
    run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    bare = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)  # the Python that made it has pip
    train = "import json, pip; print(json.dumps(pip.__file__))"
    fields = {"compat": "modelarts-v2", "boot": "train.py", "python": f"{bare}/bin/python"}
    view = run_json(write_job(fields, **{"train.py": train, "pip-requirements.txt": "pip\n"}), PIP_NO_INDEX="1")
    assert told(view)[0].startswith("/home/ma-user/pip-packages/lib/")


@pytest.mark.long
def test_packages_that_cannot_be_installed_fail_the_run(run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {"compat": "modelarts-v2"}, **{"train.py": "print('never')", "pip-requirements.txt": "no-such-package-4711\n"}
    )
    view = run_json(job, PIP_NO_INDEX="1")
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "setup")
    assert view["reason"] == "setup on node 0 exited with code 1"
    assert "no-such-package-4711" in logs(view, "setup")[0]

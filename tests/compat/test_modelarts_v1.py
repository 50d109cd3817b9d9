"""`compat: modelarts-v1`: a script finds what the older containers of that platform had around it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from behaviour import no_namespaces
from conftest import Muster, WriteJob
from s3_server import S3
from traces import TELL, RunJson, logs, put, said, stored, told

DATA = {"inputs": {"data_url": "obs://b/cifar"}, "outputs": {"train_url": "obs://b/V0001"}}
V1 = {"compat": "modelarts-v1", "code": "obs://b/apps/resnet/", **DATA, "parameters": {"epoch_size": 90}}
PREFIXES = ("DLS_", "BATCH_")

contained = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")


@pytest.fixture(autouse=True)
def store() -> None:
    put(**{"cifar/1.bin": "one", "apps/resnet/train.py": TELL, "apps/resnet/models/net.py": "WORD = 'net'"})


def variables(rank: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in rank["env"].items() if name.startswith(PREFIXES)}


@contained
def test_every_variable_of_two_nodes(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({**V1, "nodes": 2, "boot": "train.py", "log_url": "obs://b/log/"}))
    ranks = told(view)
    for index, rank in enumerate(ranks):
        found = variables(rank)
        identity = found["BATCH_JOB_ID"]
        assert re.fullmatch("job[0-9a-f]{8}", identity)
        assert rank["env"]["JOB_ID"] == identity
        port = found["BATCH_CURRENT_PORT"]
        peers = [f"{identity}-job-job-{node}:{port}" for node in (0, 1)]
        assert found == {
            "DLS_TASK_INDEX": str(index),
            "DLS_TASK_NUMBER": "2",
            "DLS_APP_URL": "obs://b/apps/resnet/",
            "DLS_DATA_URL": "obs://b/cifar",
            "DLS_TRAIN_URL": "obs://b/V0001",
            "DLS_JOB_ID": identity,
            "DLS_USE_UPLOADER": "1",
            "DLS_UPLOAD_LOG_OBS_DIR": "obs://b/log/",
            "DLS_LOCAL_CACHE_PATH": "/cache",
            "BATCH_JOB_ID": identity,
            "BATCH_TASK_INDEX": str(index),
            "BATCH_TASK_CURRENT_HOST_IP": rank["env"]["MUSTER_HOSTS"].split(",")[index],
            "BATCH_TASK_CURRENT_INSTANCE": f"{identity}-job-job-{index}",
            "BATCH_TASKGROUP_NAME": "worker",
            "BATCH_CURRENT_HOST": peers[index],
            "BATCH_CURRENT_PORT": port,
            "BATCH_CUSTOM0_HOSTS": peers[0],
            "BATCH_CUSTOM1_HOSTS": peers[1],
            "BATCH_WORKER_HOSTS": ",".join(peers),
        }
        assert rank["argv"] == [
            "/home/work/user-job-dir/resnet/train.py",
            "--data_url=obs://b/cifar",
            "--train_url=obs://b/V0001",
            "--epoch_size=90",
        ]
        assert rank["cwd"] == "/home/work/user-job-dir"
        assert rank["env"]["PYTHONUNBUFFERED"] == "1"
        assert "/home/work/user-job-dir" in rank["env"]["PYTHONPATH"].split(":")
    assert len({rank["env"]["JOB_ID"] for rank in ranks}) == 1
    assert stored("obs://b/log") == {f"{identity}-job-job-{node}.log": text for node, text in enumerate(said(view))}
    assert stored("obs://b/V0001") == {}, "the URL is the script's own business"


def test_one_node_without_data_or_log(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job({"name": "trainjob", "compat": "modelarts-v1"}, **{"train.py": TELL})
    view = run_json(job)
    (rank,) = told(view)
    found = variables(rank)
    host = found["BATCH_TASK_CURRENT_INSTANCE"] if containment == "namespaces" else rank["env"]["MUSTER_HOSTS"]
    assert found["BATCH_trainjob.0_HOSTS"] == f"{host}:{found['BATCH_CURRENT_PORT']}" == found["BATCH_CURRENT_HOST"]
    assert (found["DLS_TASK_INDEX"], found["DLS_TASK_NUMBER"]) == ("0", "1")
    assert found["DLS_APP_URL"] == f"file://{job.parent}"
    assert not {"DLS_DATA_URL", "DLS_TRAIN_URL", "DLS_USE_UPLOADER", "DLS_UPLOAD_LOG_OBS_DIR"} & set(found)
    assert rank["argv"] == [f"{rank['cwd']}/job/train.py"]
    root = "" if containment == "namespaces" else f"{rank['env']['MUSTER_RESULTS'].removesuffix('/results')}/root"
    assert (rank["cwd"], found["DLS_LOCAL_CACHE_PATH"]) == (f"{root}/home/work/user-job-dir", f"{root}/cache")


LOOK_AROUND = """
import json, os, socket
own, workers = os.environ["BATCH_CURRENT_HOST"], os.environ["BATCH_WORKER_HOSTS"].split(",")
print(json.dumps({
    "host": socket.gethostname(),
    "index": workers.index(own),
    "addresses": [socket.gethostbyname(entry.partition(":")[0]) for entry in workers],
    "env": dict(os.environ),
}))
"""


@contained
@pytest.mark.parametrize("name", ["job", "a-name-that-is-longer-than-the-name-of-a-host-may-ever-be-on-linux"])
def test_a_node_is_called_as_its_instance_and_all_nodes_know_all_names(
    name: str, run_json: RunJson, write_job: WriteJob
) -> None:
    fields = {"name": name[:60], "compat": "modelarts-v1", "nodes": 2}
    for index, rank in enumerate(told(run_json(write_job(fields, **{"train.py": LOOK_AROUND})))):
        assert rank["host"] == rank["env"]["BATCH_TASK_CURRENT_INSTANCE"]
        assert rank["host"].endswith(f"-{index}") and rank["index"] == index
        assert rank["addresses"] == rank["env"]["MUSTER_HOSTS"].split(",")


@contained
def test_a_server_that_is_measured_alone_is_called_as_the_only_one(run_json: RunJson, write_job: WriteJob) -> None:
    fields = {"compat": "modelarts-v1", "nodes": 2, "bench": {"scope": "server"}}
    ranks = told(run_json(write_job(fields, **{"train.py": LOOK_AROUND})))
    for rank in ranks:
        assert rank["host"] == rank["env"]["BATCH_TASK_CURRENT_INSTANCE"] and rank["index"] == 0
        assert rank["addresses"] == [rank["env"]["MUSTER_HOSTS"]]
    assert ranks[0]["addresses"] != ranks[1]["addresses"]


# Workers that end before their servers have said anything end these, too.
WAIT_FOR_SERVER = """
import os, pathlib, time
said = pathlib.Path(os.environ["MUSTER_SHARED"], "server-said")
while os.environ["MUSTER_RANK"] != "-1" and not said.exists():
    time.sleep(0.01)
"""
SERVER_SAID = """
said.touch()
"""


@contained
def test_parameter_servers_are_a_group_of_their_own(run_json: RunJson, write_job: WriteJob) -> None:
    fields = {"compat": "modelarts-v1", "framework": "tensorflow", "nodes": 2, "ps": 1, "log_url": "obs://b/log"}
    view = run_json(write_job(fields, **{"train.py": WAIT_FOR_SERVER + TELL + SERVER_SAID}))
    ranks = [*told(view), *(json.loads(log.splitlines()[-1]) for log in logs(view, "ps-0"))]
    found = [(rank["env"]["BATCH_TASKGROUP_NAME"], rank["env"]["BATCH_TASK_INDEX"]) for rank in ranks]
    assert found == [("worker", "0"), ("worker", "1"), ("server", "0")]
    assert [rank["env"]["DLS_TASK_INDEX"] for rank in ranks] == ["0", "1", "0"]
    logs_there = stored("obs://b/log")
    for rank in ranks:
        assert rank["env"]["BATCH_CURRENT_HOST"] in logs_there[f"{rank['env']['BATCH_TASK_CURRENT_INSTANCE']}.log"]
    for rank in ranks:
        groups = {"worker": rank["env"]["BATCH_WORKER_HOSTS"], "server": rank["env"]["BATCH_SERVER_HOSTS"]}
        assert [hosts.count(",") for hosts in groups.values()] == [1, 0]
        assert rank["env"]["BATCH_CURRENT_HOST"] in groups[rank["env"]["BATCH_TASKGROUP_NAME"]].split(",")


def test_code_lies_at_both_places_on_every_node(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    look = """
    import os
    here = os.getcwd()
    assert open(here + "/models/net.py").read() == open(here + "/resnet/models/net.py").read()
    import models.net, resnet.models.net
    open("checkpoint", "w").write("written beside the code")
    print(sorted(os.listdir(here)), sorted(os.listdir(here + "/resnet")))
    """
    put(**{"apps/resnet/look.py": "\n".join(line[4:] for line in look.splitlines())})
    view = run_json(write_job({**V1, "nodes": 2, "boot": "look.py"}))
    assert view["state"] == "succeeded", said(view)
    own = ["look.py", "models", "train.py"]
    assert said(view) == [f"{sorted([*own, 'resnet', 'checkpoint'])} {own}\n"] * 2


RUN_SH = """
if [[ $DLS_TASK_NUMBER == 1 ]]; then
    echo "alone"
else
    hosts=()
    for ((i = 0; i < DLS_TASK_NUMBER; i++)); do
        name=BATCH_CUSTOM${i}_HOSTS
        hosts+=("${!name}")
    done
    echo "$(IFS=,; echo "${hosts[*]}") $BATCH_CURRENT_HOST $BATCH_CURRENT_PORT $BASH_VERSION $PWD $*"
fi
exit ${CODE:-0}
"""
GUIDE = "bash /home/work/run_train.sh python /home/work/user-job-dir/run.sh"


@pytest.mark.long
@contained
def test_the_command_of_the_guide_as_typed(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"apps/resnet/run.sh": RUN_SH})
    fields = {**V1, "nodes": 2, "command": GUIDE}
    view = run_json(write_job(fields))
    assert view["state"] == "succeeded", said(view)
    for index, text in enumerate(said(view)):
        peers, host, port, _, folder, *words = text.splitlines()[-1].split()
        assert peers.split(",")[index] == host and host.endswith(f"-{index}:{port}")
        assert folder == "/home/work/user-job-dir"
        assert words == ["--data_url=obs://b/cifar", "--train_url=obs://b/V0001", "--epoch_size=90"]
        assert "app_url: obs://b/apps/resnet/\n" in text and "command: python /home/work/user-job-dir/run.sh" in text
    view = run_json(write_job({**fields, "env": {"CODE": "7"}}))
    assert view["failure"]["code"] == 7, "the exit code passes through"


@pytest.mark.long
@contained
def test_the_start_script_runs_python_and_scripts_by_their_first_lines(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"apps/resnet/plain": "#!/bin/bash\necho shell ${BASH_VERSION:+yes}"})
    put(**{"apps/resnet/code.py": "print('python', 6 * 7)"})
    for program, expected in (("resnet/code.py", "python 42"), ("plain", "shell yes")):
        view = run_json(write_job({**V1, "command": f"bash /home/work/run_train.sh python /home/work/user-job-dir/{program}"}))
        assert said(view)[0].splitlines()[-1] == expected


RESUME = """
import os, sys, moxing as mox
train_url = dict(word.lstrip("-").split("=") for word in sys.argv[1:])["train_url"]
mox.file.copy_parallel(train_url, "train")  # what an earlier job left there, if anything
print(os.listdir("train"))
"""


@pytest.mark.parametrize("kind", ["embedded", "s3"])
def test_an_output_is_there_before_anything_was_written(kind: str, muster: Muster, write_job: WriteJob, s3: S3) -> None:
    env, bucket = (s3.env, s3.bucket()) if kind == "s3" else ({}, "b")
    fields = {"compat": "modelarts-v1", "outputs": {"train_url": f"obs://{bucket}/V0001/"}, "boot": "resume.py"}
    job = write_job(fields, **{"resume.py": RESUME})
    assert muster("run", job, "--check", **env).returncode == 0
    assert muster("ls", f"obs://{bucket}/V0001", **env).returncode != 0, "a check leaves nothing behind"
    assert muster("run", job, **env).stdout == "[0] []\n"


@pytest.mark.parametrize("log_url", ["obs://b/V0001/", "obs://b/V0001", "obs://b/", "obs://b/V0001/log/"])
def test_an_output_is_there_whatever_the_log_url_is(log_url: str, muster: Muster, write_job: WriteJob) -> None:
    fields = {"compat": "modelarts-v1", "outputs": {"train_url": "obs://b/V0001/"}, "log_url": log_url, "boot": "resume.py"}
    assert muster("run", write_job(fields, **{"resume.py": RESUME})).stdout.startswith("[0] []\n")


@pytest.mark.parametrize("where", ["store", "machine"])
def test_every_server_that_is_measured_alone_has_its_output(
    where: str, muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    url = "obs://b/V0001/" if where == "store" else f"{tmp_path}/V0001"
    fields = {"compat": "modelarts-v1", "nodes": 2, "bench": {"scope": "server"}, "outputs": {"train_url": url}}
    job = write_job({**fields, "boot": "resume.py"}, **{"resume.py": RESUME})
    assert sorted(muster("run", job).stdout.splitlines()) == ["[0] []", "[1] []"]


def test_an_output_that_cannot_be_made_is_told_before_the_start(
    muster: Muster, write_job: WriteJob, home: Path, s3: S3
) -> None:
    fields = {"compat": "modelarts-v1", "outputs": {"train_url": "obs://nobody-made-this/V0001/"}, "command": "true"}
    done = muster("run", write_job(fields), **s3.env)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "`outputs.train_url` cannot save to " in done.stderr and "there is no bucket `nobody-made-this`" in done.stderr
    assert not (home / "runs").exists() or not list((home / "runs").iterdir())


# The code is checked when a run is submitted; what becomes of it later is found by the nodes.
LOSE_THE_CODE = """
import os, pathlib, sys, time
if os.environ["MUSTER_RANK"] != "0":
    time.sleep(1000)
(kept,) = pathlib.Path(os.environ["MUSTER_HOME"], "code").iterdir()
kept.rename(kept.with_name("gone"))
kept.write_text("no directory any more")
sys.exit(1)
"""


@pytest.mark.parametrize("compat", ["modelarts-v1", "modelarts-v2"])
def test_code_that_cannot_be_brought_to_a_node_is_code_127(
    compat: str, containment: str, muster: Muster, write_job: WriteJob
) -> None:
    job = write_job({"compat": compat, "nodes": 2, "retries": 1}, **{"train.py": LOSE_THE_CODE})
    view = json.loads(muster("run", job, "--json").stdout)
    assert view["state"] == "failed"
    what = r"the code could not be brought to node [01] \(code 127\): Not a directory: [^;]* \(attempt 2 of 2\)"
    assert re.fullmatch(what, view["reason"]), "there is nothing to say of outputs"

"""Ranks that train apart although their job has one training: the run says so, and no number is summed over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from muster.job import Bench, Job
from muster.records.layout import AttemptDir
from muster.records.warnings import separate
from traces import RunJson

# What launchers do: they start trainers and tell each how many there are. Arguments: variable, size, first rank, how many here.
LAUNCH = """
import os, subprocess, sys
name, size, first, count, *program = sys.argv[1:]
names = {"PADDLE_TRAINERS_NUM": "PADDLE_TRAINER_ID", "WORLD_SIZE": "RANK", "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK"}
own = [dict(os.environ, **{name: size, names[name]: str(int(first) + index)}) for index in range(int(count))]
sys.exit(max([child.wait() for child in [subprocess.Popen([sys.executable, *program], env=env) for env in own]]))
"""
TRAIN = "import subprocess, sys, time\nloader = subprocess.Popen(['sleep', '1000'])\ntime.sleep(3)\nloader.kill()\n"
FILES = {
    "paddle/__init__.py": "",
    "paddle/distributed/__init__.py": "",
    "paddle/distributed/launch.py": LAUNCH,
    "torchrun": LAUNCH,
    "train.py": TRAIN,
    "evaluate.py": TRAIN,
    "direct.py": "import os, subprocess, sys\nown = dict(os.environ, WORLD_SIZE='1', RANK='0')\n"
    "sys.exit(subprocess.call(['bash', '-c', sys.executable + ' evaluate.py; true'], env=own))\n",
    "start.py": "import os, sys\nsys.exit(os.system('python -W ignore torchrun WORLD_SIZE 2 0 2 train.py'))\n",
    "start_joined.py": "import os, sys\n"
    "sys.exit(os.system('python -m paddle.distributed.launch PADDLE_TRAINERS_NUM 2 $MUSTER_NODE 1 train.py'))\n",
    "quick.py": "import time\ntime.sleep(1)\n",
    "train_and_evaluate.py": "import os, sys, time\ntime.sleep(5)\n"
    "sys.exit(os.system('python torchrun WORLD_SIZE 2 0 2 quick.py'))\n",
}
ALONE = "python -m paddle.distributed.launch PADDLE_TRAINERS_NUM 1 0 1 train.py"
PAIRS = "python torchrun WORLD_SIZE 2 0 2 train.py"
JOINED = "python -m paddle.distributed.launch PADDLE_TRAINERS_NUM 2 $MUSTER_NODE 1 train.py"


def test_a_launcher_that_was_not_told_of_the_other_nodes(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"nodes": 2, "command": f"bash -c '{ALONE}; true'"}, **FILES)
    done = muster("run", job)
    said = (
        "2 separate trainings ran instead of one: train.py had PADDLE_TRAINERS_NUM=1 on node 0 and node 1, set by "
        "paddle.distributed.launch; the job has 2 ranks on 2 nodes: give the launcher all nodes (MUSTER_HOSTS has their "
        "addresses, MUSTER_NODE is the own number)"
    )
    assert done.returncode == 0
    assert f"\n! warning: {said}\n" in done.stderr
    assert f"\n! warning: {said}\n" in muster("show", "last").stdout
    view = json.loads(muster("show", "last", "--json").stdout)
    assert (view["state"], view["warnings"]) == ("succeeded", [said])
    assert json.loads(Path(view["dir"], "final.json").read_text())["warnings"] == [said]
    assert json.loads(muster("wait", "last", "--json").stdout)["warnings"] == [said]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"nodes": 2, "command": PAIRS}, "WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks"),
        (
            {"nodes": 2, "command": "python start.py"},
            "train.py had WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks on 2 nodes",
        ),
        (
            {"nodes": 2, "framework": "pytorch", "boot": "start.py"},
            "train.py had WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks on 2 nodes",
        ),
        (
            {"nodes": 1, "devices": 3, "framework": "paddle", "command": ALONE},
            "PADDLE_TRAINERS_NUM=1 on node 0 (3 times), set by paddle.distributed.launch; the job has 3 ranks on 1 node",
        ),
        (
            {"nodes": 2, "framework": "pytorch", "boot": "train.py", "env": {"WORLD_SIZE": "1"}},
            "WORLD_SIZE=1 on node 0 and node 1; the job has 2 ranks on 2 nodes: leave WORLD_SIZE to Muster",
        ),
    ],
)
def test_other_ways_to_be_left_alone(fields: dict[str, Any], told: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job(fields, **FILES))
    assert view["state"] == "succeeded"
    assert [told in warning for warning in view["warnings"]] == [True]


@pytest.mark.parametrize(
    "fields",
    [
        {"nodes": 2, "command": JOINED},
        {"nodes": 2, "command": f"bash -c '{JOINED}; {ALONE.replace('train', 'evaluate')}'"},
        {"nodes": 2, "command": f"bash -c '{ALONE.replace('train', 'evaluate')}; {JOINED}'"},
        {"nodes": 2, "framework": "pytorch", "boot": "direct.py"},
        {"nodes": 1, "devices": 2, "framework": "pytorch", "boot": "direct.py"},
        {"nodes": 2, "command": "WORLD_SIZE=1 RANK=0 python train.py"},  # nobody says that it is a training
        {"nodes": 2, "command": "python direct.py"},
        {"nodes": 2, "command": "python start_joined.py"},
        {"nodes": 2, "framework": "pytorch", "boot": "start_joined.py"},
        {"nodes": 2, "command": "python train_and_evaluate.py"},
        {"nodes": 2, "framework": "pytorch", "boot": "train_and_evaluate.py"},
        {"nodes": 2, "command": ALONE, "bench": {"scope": "server"}},
        {"nodes": 2, "command": ALONE, "bench": {"scope": "server"}, "env": {"SINGLESERVER_MODE": "True"}},
        {"nodes": 1, "devices": 2, "command": PAIRS},
        {"nodes": 2, "command": f"[ $MUSTER_NODE = 0 ] || exit 0; {ALONE}"},
    ],
)
def test_what_is_as_it_should_be_gives_no_warning(fields: dict[str, Any], run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job(fields, **FILES))
    assert (view["state"], view["warnings"]) == ("succeeded", [])


RECORD = "import time\nfrom muster import record\nrecord.metric('throughput', 100.0)\ntime.sleep(3)\n"


def test_a_benchmark_has_no_throughput_of_trainings_that_were_not_one(
    muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    job = write_job({"nodes": 2, "command": ALONE, "bench": {}}, **{**FILES, "train.py": RECORD})
    done = muster("bench", job, "--json", "--export", tmp_path / "bundle.zip")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    verdict, throughput = found["verdict"], found["metrics"]["throughput"]
    assert not verdict["passed"] and "2 separate trainings ran instead of one" in verdict["problems"][0]
    assert (throughput["value"], "2 separate trainings" in throughput["reason"]) == (None, True)
    assert [rank["value"] for rank in found["runs"][0]["metrics"]["throughput"]["ranks"]] == [100.0, 100.0]
    assert "2 separate trainings ran instead of one" in muster("report", "last").stdout
    assert muster("verify", tmp_path / "bundle.zip").returncode == 0


WORLD = {"variable": "WORLD_SIZE", "size": 1, "rank": 0, "program": "t.py", "launcher": "torchrun", "ranks": [0]}
TWO = Job(nodes=2)


def ended(folder: Path, *nodes: Any) -> AttemptDir:
    """An attempt whose agents saw such worlds."""
    for index, worlds in enumerate(nodes):
        path = folder / "1" / "nodes" / str(index) / "exit.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"worlds": worlds}))
    return AttemptDir(str(folder / "1"))


def complete(*worlds: Any) -> dict[str, Any]:
    return {"complete": list(worlds), "joined": False}


def test_many_nodes_and_worlds_that_differ_are_told_in_short(tmp_path: Path) -> None:
    attempt = ended(tmp_path, *[complete(WORLD)] * 7, complete({**WORLD, "size": 2}))
    assert separate(attempt, Job(nodes=8)).startswith(
        "8 separate trainings ran instead of one: t.py had WORLD_SIZE=1 on node 0, node 1, node 2, node 3 and 3 more nodes, "
        "and others were alone as well, set by torchrun; the job has 8 ranks on 8 nodes"
    )


@pytest.mark.parametrize(
    "nodes",
    [
        [complete(WORLD), {"complete": [WORLD], "joined": True}],
        [complete(WORLD), None],
        [complete(WORLD), []],
        [complete(WORLD), {"complete": 7, "joined": False}],
        [complete(WORLD), complete(3, {"size": "x"})],
        [complete(WORLD), {}],
    ],
)
def test_records_that_say_something_else_say_nothing(nodes: list[Any], tmp_path: Path) -> None:
    assert separate(ended(tmp_path, *nodes), TWO) == ""


def test_servers_that_are_measured_alone_are_meant_to_be(tmp_path: Path) -> None:
    attempt = ended(tmp_path, complete(WORLD), complete(WORLD))
    assert separate(attempt, TWO)
    assert separate(attempt, Job(nodes=2, bench=Bench(scope="server"))) == ""

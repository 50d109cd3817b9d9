"""The run.sh of Paddle's guide for ModelArts, unchanged: with the launcher of its time, and with one that ignores its flags."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_framework_examples import programs as programs

from behaviour import no_namespaces
from conftest import Muster, WriteJob

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(no_namespaces()), reason="its command names a fixed path, which takes namespaces"),
]

RUN_SH = """\
if [[ ${DLS_TASK_NUMBER} == 1 ]]; then
    # 单机
    config="--selected_gpus=0,1,2,3,4,5,6,7 --log_dir mylog"
    python -m paddle.distributed.launch ${config} train.py
else
    # 分布式
    node_host_str=""
    for i in $(seq 0 $[DLS_TASK_NUMBER-1])
    do
        env_key=BATCH_CUSTOM${i}_HOSTS
        if [[ $i == $[DLS_TASK_NUMBER-1] ]]; then
            node_host_str="${node_host_str}$(eval echo '$'$env_key)"
        else
            node_host_str="${node_host_str}$(eval echo '$'$env_key),"
        fi
    done

    node_hosts=${node_host_str}
    node_ip=${BATCH_CURRENT_HOST}

    python -m paddle.distributed.launch \\
        --cluster_node_ips=${node_hosts} \\
        --node_ip=${node_ip} \\
        --started_port=${BATCH_CURRENT_PORT} \\
        --selected_gpus=0,1,2,3,4,5,6,7 \\
        train_with_fleet.py
fi
"""
# The lines that docs/compat.md says to change, and what to.
CHANGES = {
    "node_hosts=${node_host_str}": "node_hosts=$(echo ${node_host_str} | sed 's/:[0-9]*//g')",
    "node_ip=${BATCH_CURRENT_HOST}": "node_ip=${BATCH_CURRENT_HOST%:*}",
}
JOB = {
    "compat": "modelarts-v1",
    "nodes": 2,
    "devices": 2,
    "command": "bash /home/work/run_train.sh python /home/work/user-job-dir/run.sh",
}
# A trainer says what it was told; Paddle itself has no collective training on CPUs in these versions.
TOLD = """
import json, os, socket
own = [os.environ["PADDLE_" + name] for name in ("TRAINER_ID", "TRAINERS_NUM", "CURRENT_ENDPOINT", "TRAINER_ENDPOINTS")]
print(json.dumps([socket.gethostname(), *own]) + "\\n", end="", flush=True)
"""
TRAIN = """
import paddle
import paddle.distributed as dist
dist.init_parallel_env()
layer = paddle.nn.Linear(4, 1)
for step in range(20):
    layer(paddle.ones([2, 4])).mean().backward()
print("trained with", dist.get_world_size())
"""


def trainers(view: dict[str, Any]) -> list[list[str]]:
    """What the trainers of all nodes were told, by their numbers."""
    logs = [log.read_text() for log in Path(view["dir"]).glob("attempts/1/nodes/*/logs/rank-*.log")]
    told = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith('["')]
    return sorted(told, key=lambda words: int(words[1]))


def test_the_launcher_of_its_time_starts_trainers_on_both_nodes(
    muster: Muster, write_job: WriteJob, programs: Callable[[str], str]
) -> None:
    path = f"{programs('paddle-1.8')}:{os.environ['PATH']}"
    changed = RUN_SH
    for line, better in CHANGES.items():
        assert RUN_SH.count(f"    {line}\n") == 1
        changed = changed.replace(line, better)
    documented = Path(__file__).parents[2].joinpath("docs", "compat.md").read_text()
    assert all(line in documented for pair in CHANGES.items() for line in pair)
    for script, colons in ((RUN_SH, 2), (changed, 1)):
        job = write_job(JOB, **{"run.sh": script, "train_with_fleet.py": TOLD})
        view = json.loads(muster("run", job, "--json", PATH=path, timeout=280).stdout)
        assert (view["state"], view["warnings"]) == ("succeeded", []), view["reason"]
        told = trainers(view)
        assert [(number, count) for _, number, count, *_ in told] == [(str(number), "16") for number in range(16)]
        hosts = [host for host, *_ in told]
        assert len(set(hosts)) == 2 and hosts == sorted(hosts)
        for host, number, _, own, everybody in told:
            assert own == everybody.split(",")[int(number)] and own.startswith(f"{host}:")
            assert own.count(":") == colons, "a host, the port that came with it, and the one that the launcher adds"


def test_what_ignores_its_flags_trains_two_worlds_of_one_and_the_run_says_so(
    muster: Muster, write_job: WriteJob, programs: Callable[[str], str]
) -> None:
    path = f"{programs('paddle')}:{os.environ['PATH']}"
    job = write_job(JOB, **{"run.sh": RUN_SH, "train_with_fleet.py": TRAIN})
    done = muster("run", job, PATH=path, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained with 1\n") == 2
    assert "\n! warning: 2 separate trainings ran instead of one: train_with_fleet.py had PADDLE_TRAINERS_NUM=1" in done.stderr
    assert " on node 0 and node 1, set by paddle.distributed.launch; the job has 2 ranks on 2 nodes: " in done.stderr

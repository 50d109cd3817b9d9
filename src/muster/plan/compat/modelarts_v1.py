"""`compat: modelarts-v1`: the older containers, with DLS_* and BATCH_* variables and data as URLs."""

from __future__ import annotations

from muster.job import Job
from muster.plan.compat.base import logged
from muster.plan.compat.modelarts import RANK_TABLE, ModelArts, pod, resource_id
from muster.plan.node import File, Places, Transfer
from muster.plan.world import PS, Node, World

HOME = "/home/work"

# The platform's start script, less what the agent has done by then: the code is there, and the log is kept by the agent.
RUN_TRAIN = """#!/bin/bash
# Stands in for the start script of the platform: bash run_train.sh PROGRAM ARGUMENTS...
cd "$(dirname "$0")/user-job-dir" || exit 127
export PYTHONUNBUFFERED=1
echo "user: $(id)"
echo "pwd: $PWD"
echo "app_url: $DLS_APP_URL"
echo "command:" "$@"
case "${1##*/}" in
python*) # a bash script that is handed to Python is meant for bash
    case "$2" in
    *.sh) shift; exec bash "$@" ;;
    esac
    if [ -f "$2" ] && head -n 1 -- "$2" | grep -qE '^#!.*[ /](ba)?sh'; then shift; exec bash "$@"; fi ;;
esac
exec "$@"
"""


class ModelArtsV1(ModelArts):
    writes_urls = True
    home = HOME
    jobs = HOME + "/user-job-dir"

    def host(self, job: Job, run: str, index: int) -> str:
        return pod(job, run, index)

    def cwd(self, job: Job, places: Places) -> str:
        return places.at(self.jobs)

    def data(self, job: Job, places: Places) -> dict[str, str]:
        return {name: data.url for name, data in [*job.inputs.items(), *job.outputs.items()]}

    def inputs(self, job: Job, places: Places) -> tuple[Transfer, ...]:
        return ()  # scripts fetch what they need with MoXing

    def outputs(self, job: Job, places: Places) -> tuple[Transfer, ...]:
        return ()

    def variables(self, job: Job, world: World, node: Node, places: Places) -> dict[str, str]:
        urls = self.data(job, places)
        # One port number for all nodes: scripts hand their own BATCH_CURRENT_PORT to launchers as that of everybody.
        port = world.master.info.ports[1]
        groups: dict[str, dict[int, str]] = {"worker": {}, "server": {}}
        for other in world.nodes:
            host = other.address if places.root else self.host(job, world.run, other.index)
            groups[_group(other)][other.index] = f"{host}:{port}"
        group = groups[_group(node)]
        env = {
            "JOB_ID": resource_id(world.run),
            "DLS_JOB_ID": resource_id(world.run),
            "DLS_TASK_INDEX": str(list(group).index(node.index)),
            "DLS_TASK_NUMBER": str(len(world.workers)),
            "DLS_APP_URL": job.code if "://" in job.code else "file://" + job.code,
            "DLS_LOCAL_CACHE_PATH": places.at("/cache"),
            "BATCH_JOB_ID": resource_id(world.run),
            "BATCH_TASKGROUP_NAME": _group(node),
            "BATCH_TASK_INDEX": str(list(group).index(node.index)),
            "BATCH_TASK_CURRENT_HOST_IP": node.address,
            "BATCH_TASK_CURRENT_INSTANCE": pod(job, world.run, node.index),
            "BATCH_CURRENT_HOST": group[node.index],
            "BATCH_CURRENT_PORT": str(port),
        }
        env.update({f"DLS_{name.upper()}": urls[name] for name in ("data_url", "train_url") if name in urls})
        if job.log_url:
            env.update({"DLS_USE_UPLOADER": "1", "DLS_UPLOAD_LOG_OBS_DIR": job.log_url})
        if len(world.workers) == 1:
            env[f"BATCH_{job.name}.0_HOSTS"] = groups["worker"][0]
        env.update({f"BATCH_CUSTOM{index}_HOSTS": host for index, host in groups["worker"].items()})
        env.update({f"BATCH_{name.upper()}_HOSTS": ",".join(hosts.values()) for name, hosts in groups.items() if hosts})
        if job.npu and job.framework == "command":
            env["RANK_TABLE_FILE"] = places.at(RANK_TABLE).rpartition("/")[0]  # here the platform names the directory
        return env

    def files(self, job: Job, world: World, node: Node, places: Places) -> tuple[File, ...]:
        script = File(places.at(HOME + "/run_train.sh"), RUN_TRAIN, 0o755)
        return (script, *super().files(job, world, node, places))

    def log(self, job: Job, world: World, node: Node) -> dict[str, tuple[str, ...]]:
        # With the job's name as it is, by which scripts look for it; a host name cannot hold every name.
        return {f"{resource_id(world.run)}-job-{job.name}-{node.index}.log": ("setup", *logged(job, node))}


def _group(node: Node) -> str:
    """The task group of a node, as the platform calls it."""
    return "server" if node.role == PS else "worker"


PLATFORM = ModelArtsV1()

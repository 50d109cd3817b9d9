"""`compat: modelarts-v1`: the older containers, with DLS_* and BATCH_* variables and data as URLs."""

from __future__ import annotations

from typing import Dict, Tuple

from muster.job import Job
from muster.plan.compat.modelarts import RANK_TABLE, ModelArts, pod, resource_id
from muster.plan.node import File, Places, Transfer
from muster.plan.world import Node, World

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

    def cwd(self, job: Job, places: Places) -> str:
        return places.at(self.jobs)

    def data(self, job: Job, places: Places) -> Dict[str, str]:
        return {name: data.url for name, data in [*job.inputs.items(), *job.outputs.items()]}

    def inputs(self, job: Job, places: Places) -> Tuple[Transfer, ...]:
        return ()  # scripts fetch what they need with MoXing

    def outputs(self, job: Job, places: Places) -> Tuple[Transfer, ...]:
        return ()

    def variables(self, job: Job, world: World, node: Node, places: Places) -> Dict[str, str]:
        urls = self.data(job, places)
        # One port number for all nodes: scripts hand their own BATCH_CURRENT_PORT to launchers as that of everybody.
        host, port = reach(node, places), world.master.facts.ports[1]
        env = {
            "JOB_ID": resource_id(world.run),
            "DLS_JOB_ID": resource_id(world.run),
            "DLS_TASK_INDEX": str(node.index),
            "DLS_TASK_NUMBER": str(len(world.workers)),
            "DLS_APP_URL": job.code if "://" in job.code else "file://" + job.code,
            "DLS_LOCAL_CACHE_PATH": places.at("/cache"),
            "BATCH_JOB_ID": resource_id(world.run),
            "BATCH_TASK_INDEX": str(node.index),
            "BATCH_TASK_CURRENT_HOST_IP": node.address,
            "BATCH_TASK_CURRENT_INSTANCE": pod(job, world.run, node.index),
            "BATCH_CURRENT_HOST": host,
            "BATCH_CURRENT_PORT": str(port),
        }
        if "data_url" in urls:
            env["DLS_DATA_URL"] = urls["data_url"]
        if "train_url" in urls:
            env["DLS_TRAIN_URL"] = urls["train_url"]
        if job.log_url:
            env.update({"DLS_USE_UPLOADER": "1", "DLS_UPLOAD_LOG_OBS_DIR": job.log_url})
        if len(world.workers) == 1:
            env["BATCH_%s.0_HOSTS" % job.name] = "%s:%d" % (host, port)
        for other in world.workers:
            env["BATCH_CUSTOM%d_HOSTS" % other.index] = "%s:%d" % (reach(other, places), port)
        if job.npu and job.framework == "command":
            env["RANK_TABLE_FILE"] = places.at(RANK_TABLE).rpartition("/")[0]  # here the platform names the directory
        return env

    def files(self, job: Job, world: World, node: Node, places: Places) -> Tuple[File, ...]:
        script = File(places.at(HOME + "/run_train.sh"), RUN_TRAIN, 0o755)
        return (script, *super().files(job, world, node, places))

    def log(self, job: Job, world: World, node: Node) -> Dict[str, Tuple[str, ...]]:
        own = [name for name, _, index in job.programs if index == node.index]
        return {"%s.log" % pod(job, world.run, node.index): ("setup", *own)}


def reach(node: Node, places: Places) -> str:
    """The name by which others reach a node: its host name where their hosts files know it, else its address."""
    return node.address if places.root else node.facts.host

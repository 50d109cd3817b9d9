"""`compat: modelarts-v2`: the newer containers, with MA_* and VC_* variables and data as local directories."""

from __future__ import annotations

import shlex
from typing import Dict, List, Tuple

from muster.job import Job
from muster.plan.compat.modelarts import RANK_TABLE, ModelArts, job_id, python
from muster.plan.node import Places, Transfer
from muster.plan.world import Node, World

HOME = "/home/ma-user"
MOUNT = HOME + "/modelarts"

# Packages go into an environment of the node's own, laid over the one that the program runs with.
REQUIREMENTS = """if [ -f {folder}/pip-requirements.txt ]; then
  {python} -c 'import pip' 2> /dev/null && set -- --without-pip || set --
  {python} -m venv "$@" {packages} &&
  {python} -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\\n")' > {packages}/base.pth &&
  mv {packages}/base.pth {packages}/lib/python*/site-packages &&
  {packages}/bin/python -m pip install --disable-pip-version-check -r {folder}/pip-requirements.txt || exit
  export PYTHONPATH="$(echo {packages}/lib/python*/site-packages)${{PYTHONPATH:+:$PYTHONPATH}}"
fi
"""


class ModelArtsV2(ModelArts):
    home = HOME
    jobs = MOUNT + "/user-job-dir"

    def host(self, job: Job, run: str, index: int) -> str:
        return _instance(run, index)

    def names(self, run: str, index: int) -> List[str]:
        return [_worker(job_id(run), index, word) for word in ("modelarts-job", "ma-job")]

    def input(self, places: Places, name: str, index: int) -> str:
        return places.at("%s/inputs/%s_%d" % (MOUNT, name, index))

    def output(self, places: Places, name: str, index: int) -> str:
        return places.at("%s/outputs/%s_%d" % (MOUNT, name, index))

    def data(self, job: Job, places: Places) -> Dict[str, str]:
        inputs = {name: self.input(places, name, index) for index, name in enumerate(job.inputs)}
        return {**inputs, **{name: self.output(places, name, index) for index, name in enumerate(job.outputs)}}

    def inputs(self, job: Job, places: Places) -> Tuple[Transfer, ...]:
        paths = self.data(job, places)
        return tuple(Transfer(name, data.url, paths[name]) for name, data in job.inputs.items())

    def setup(self, job: Job, places: Places) -> str:
        packages = shlex.quote(places.at(HOME + "/pip-packages"))
        install = REQUIREMENTS.format(folder=self.beside(job, places), python=python(job), packages=packages)
        return install + super().setup(job, places)

    def folders(self, places: Places) -> Tuple[str, ...]:
        return (*super().folders(places), places.at(MOUNT + "/log"))

    def variables(self, job: Job, world: World, node: Node, places: Places) -> Dict[str, str]:
        identity = job_id(world.run)
        hosts = [other.address if places.root else _worker(identity, other.index) for other in world.workers]
        env = {
            "JOB_ID": identity,
            "MA_HOME": places.at(HOME),
            "MA_MOUNT_PATH": places.at(MOUNT),
            "MA_JOB_DIR": places.at(self.jobs),
            "MA_LOG_DIR": places.at(MOUNT + "/log"),
            "WORKSPACE": self.work(job, places),
            "MA_SCRIPT_INTERPRETER": job.python,
            "MA_CURRENT_IP": node.address,
            "MA_NUM_HOSTS": str(len(world.workers)),
            "MA_NUM_GPUS": str(job.devices),
            "MA_TASK_NAME": node.role,
            "MA_VJ_NAME": "ma-job-" + identity,
            "MA_CURRENT_INSTANCE_NAME": _instance(world.run, node.index),
            "VC_TASK_INDEX": str(node.index),
            "VK_TASK_INDEX": str(node.index),
            "VC_WORKER_NUM": str(len(world.workers)),
            "VC_WORKER_HOSTS": ",".join(hosts),
        }
        if job.npu and job.framework == "command":
            env["RANK_TABLE_FILE"] = places.at(RANK_TABLE)
        return env

    def log(self, job: Job, world: World, node: Node) -> Dict[str, Tuple[str, ...]]:
        name = "modelarts-job-" + job_id(world.run)
        own = [(process, rank) for process, rank, index in job.programs if index == node.index]
        logs = {"%s-worker-%d.log" % (name, node.index): ("setup", *(process for process, _ in own))}
        if job.framework != "command" and not job.alone:
            for process, rank in own:
                device = node.facts.devices[rank - world.rank(node, 0)].id
                logs["%s-proc-rank-%d-device-%s.txt" % (name, rank, device)] = (process,)
        return logs


def _instance(run: str, index: int) -> str:
    return "modelarts-job-%s-worker-%d" % (job_id(run), index)


def _worker(identity: str, index: int, word: str = "modelarts-job") -> str:
    name = "%s-%s" % (word, identity)
    return "%s-worker-%d.%s" % (name, index, name)

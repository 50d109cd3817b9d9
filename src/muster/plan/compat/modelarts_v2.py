"""`compat: modelarts-v2`: the newer containers, with MA_* and VC_* variables and data as local directories."""

from __future__ import annotations

import shlex

from muster.job import Job
from muster.plan.compat.base import logged, task
from muster.plan.compat.modelarts import RANK_TABLE, ModelArts, job_id, python
from muster.plan.node import Places
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
        return _instance(run, task(job, index))

    def names(self, job: Job, run: str, index: int) -> list[str]:
        return [_name(job_id(run), task(job, index), word) for word in ("modelarts-job", "ma-job")]

    def input(self, places: Places, index: int, name: str, url: str) -> str:
        return places.at(f"{MOUNT}/inputs/{name}_{index}")

    def output(self, places: Places, index: int, name: str) -> str:
        return places.at(f"{MOUNT}/outputs/{name}_{index}")

    def setup(self, job: Job, places: Places) -> str:
        packages = shlex.quote(places.at(HOME + "/pip-packages"))
        install = REQUIREMENTS.format(folder=self.beside(job, places), python=python(job), packages=packages)
        return install + super().setup(job, places)

    def folders(self, places: Places) -> tuple[str, ...]:
        return (*super().folders(places), places.at(MOUNT + "/log"))

    def variables(self, job: Job, world: World, node: Node, places: Places) -> dict[str, str]:
        identity, own = job_id(world.run), task(job, node.index)
        hosts = [other.address if places.root else _name(identity, task(job, other.index)) for other in world.workers]
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
            "MA_CURRENT_INSTANCE_NAME": _instance(world.run, own),
            "VC_TASK_INDEX": own.rpartition("-")[2],
            "VK_TASK_INDEX": own.rpartition("-")[2],
            "VC_WORKER_NUM": str(len(world.workers)),
            "VC_WORKER_HOSTS": ",".join(hosts),
        }
        if job.npu and job.framework == "command":
            env["RANK_TABLE_FILE"] = places.at(RANK_TABLE)
        return env

    def log(self, job: Job, world: World, node: Node) -> dict[str, tuple[str, ...]]:
        name = "modelarts-job-" + job_id(world.run)
        logs = {f"{_instance(world.run, task(job, node.index))}.log": ("setup", *logged(job, node))}
        if job.framework != "command" and not job.alone:
            for process, rank in [(process, rank) for process, rank, index in job.programs if index == node.index]:
                device = node.info.devices[rank - world.rank(node, 0)].id
                logs[f"{name}-proc-rank-{rank}-device-{device}.txt"] = (process,)
        return logs


def _instance(run: str, task: str) -> str:
    return f"modelarts-job-{job_id(run)}-{task}"


def _name(identity: str, task: str, word: str = "modelarts-job") -> str:
    name = f"{word}-{identity}"
    return f"{name}-{task}.{name}"


PLATFORM = ModelArtsV2()

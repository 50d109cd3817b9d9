"""Both generations of ModelArts: the directory of the code, scripts that run before it, the rank table."""

from __future__ import annotations

import hashlib
import re
import shlex

from muster.job import Job
from muster.plan import ranktable
from muster.plan.compat.base import Compat
from muster.plan.node import File, Places
from muster.plan.world import Node, World

LABEL = 40  # letters of a job's name in a host name, which has 63 at most
RANK_TABLE = "/user/config/jobstart_hccl.json"

# What the platform runs before the boot file, in the directory above the code.
PRE_START = """cd -- {parent}
if [ -f {folder}/ma-pre-start.sh ]; then
  echo "muster: running ma-pre-start.sh"
  . {folder}/ma-pre-start.sh
  set -- $?; [ $1 = 0 ] || exit $1
fi
if [ -f {folder}/ma-pre-start.py ]; then
  echo "muster: running ma-pre-start.py"
  cd -- {parent} && {python} {folder}/ma-pre-start.py || exit
fi
"""


class ModelArts(Compat):
    private = ("/user", "/tmp")  # a container has a fresh one: scripts leave flags there for each other
    home = ""
    jobs = ""  # the directory above the code

    def work(self, job: Job, places: Places) -> str:
        return f"{places.at(self.jobs)}/{folder(job)}"

    def boot(self, job: Job, places: Places) -> str:
        return f"{self.work(job, places)}/{job.boot}"

    def setup(self, job: Job, places: Places) -> str:
        parent = shlex.quote(places.at(self.jobs))
        return PRE_START.format(parent=parent, folder=self.beside(job, places), python=python(job))

    def beside(self, job: Job, places: Places) -> str:
        """The directory of the boot file, for a shell."""
        above = job.boot.rpartition("/")[0]
        return shlex.quote(f"{self.work(job, places)}/{above}" if above else self.work(job, places))

    def folders(self, places: Places) -> tuple[str, ...]:
        return (places.at("/cache"),)

    def prefix(self, job: Job, places: Places) -> dict[str, tuple[str, ...]]:
        return {"PYTHONPATH": (places.at(self.jobs), self.work(job, places))}

    def rank_table(self, world: World, places: Places) -> str:
        """The table in the format of current software, into which the platform converts its own."""
        return places.at(self.home + "/rank_table/jobstart_hccl.json")

    def files(self, job: Job, world: World, node: Node, places: Places) -> tuple[File, ...]:
        if not job.npu:
            return ()
        pods = {other.index: pod(job, world.run, other.index) for other in world.workers}
        servers = ranktable.servers(world, pods)
        table = ranktable.render("pods", servers, "job-" + label(job))
        return (
            File(places.at(RANK_TABLE), table),
            File(self.rank_table(world, places), ranktable.render(job.rank_table or "1.0", servers)),
        )


def folder(job: Job) -> str:
    """The last folder of the code directory: what the code is called on the platform."""
    name = job.code.rstrip("/").rpartition("/")[2]
    return name if name.strip(".") else "code"


def python(job: Job) -> str:
    """The Python of a job, for a shell."""
    return shlex.quote(job.python) if job.python else '"$(command -v python || command -v python3)"'


def label(job: Job) -> str:
    """The job's name as the name of a pod can hold it."""
    return re.sub(r"[^a-z0-9-]+", "-", job.name.lower()).strip("-") or "job"


def resource_id(run: str) -> str:
    """The id of the older generation, such as jobdc558870."""
    return "job" + hashlib.sha256(run.encode()).hexdigest()[:8]


def job_id(run: str) -> str:
    """The id of the newer generation, in the form of a UUID."""
    digits = hashlib.sha256(run.encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], "4" + digits[13:16], "a" + digits[17:20], digits[20:32]))


def pod(job: Job, run: str, index: int) -> str:
    """The name of an instance, which is its host name: that of a job may be too long for one."""
    return f"{resource_id(run)}-job-{label(job)[:LABEL].rstrip('-')}-{index}"

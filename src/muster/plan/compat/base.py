"""The interface of a platform: small methods, whose defaults are Muster's own surroundings."""

from __future__ import annotations

from muster.job import Job
from muster.job.data import local_path
from muster.plan.node import File, Places, Transfer
from muster.plan.world import PS, WORKER, Node, World


class Compat:
    writes_urls = False  # whether programs take outputs to their URLs themselves
    private: tuple[str, ...] = ()  # directories that each node has for itself, beside those that all simulated nodes have
    shared: tuple[str, ...] = ()  # directories that all nodes of a run see

    def user_home(self, user: str) -> str:
        """The path at which all nodes see the user's home, where the platform has another."""
        return ""

    def host(self, job: Job, run: str, index: int) -> str:
        """The host name that a node has there, if the platform gives it one; all nodes know it."""
        return ""

    def names(self, job: Job, run: str, index: int) -> list[str]:
        """Names of a node beside its host name, for the hosts file."""
        return []

    def work(self, job: Job, places: Places) -> str:
        """The directory of the code."""
        return places.work

    def cwd(self, job: Job, places: Places) -> str:
        """The directory in which the program starts. If it is not that of the code, entries of the code are linked there."""
        return self.work(job, places)

    def boot(self, job: Job, places: Places) -> str:
        """The boot file, as it is named to Python."""
        return job.boot

    def data(self, job: Job, places: Places) -> dict[str, str]:
        """The directory of each input and output, as the program gets it."""
        inputs = {name: self.input(places, index, name, data.url) for index, (name, data) in enumerate(job.inputs.items())}
        return {**inputs, **{name: self.output(places, index, name) for index, name in enumerate(job.outputs)}}

    def input(self, places: Places, index: int, name: str, url: str) -> str:
        return local_path(url) or f"{places.node}/inputs/{name}"

    def output(self, places: Places, index: int, name: str) -> str:
        return f"{places.node}/outputs/{name}"

    def inputs(self, job: Job, places: Places) -> tuple[Transfer, ...]:
        """The inputs that are copied to the node before the program starts."""
        paths = self.data(job, places)
        copied = {name: data.url for name, data in job.inputs.items() if paths[name] != local_path(data.url)}
        return tuple(Transfer(name, url, paths[name]) for name, url in copied.items())

    def outputs(self, job: Job, places: Places) -> tuple[Transfer, ...]:
        """The outputs that are copied from the node while the program runs and at its end."""
        paths = self.data(job, places)
        return tuple(Transfer(name, data.url, paths[name]) for name, data in job.outputs.items())

    def variables(self, job: Job, world: World, node: Node, places: Places) -> dict[str, str]:
        """Variables of every process of a node."""
        return {}

    def rank_table(self, world: World, places: Places) -> str:
        """The rank table that the ranks of a framework read, where the platform has one."""
        return ""

    def rank(self, job: Job, world: World, places: Places) -> dict[str, str]:
        """Variables of a rank."""
        path = self.rank_table(world, places) if job.npu and job.framework != "command" else ""
        return {"RANK_TABLE_FILE": path, "MINDSPORE_HCCL_CONFIG_PATH": path} if path else {}

    def folders(self, places: Places) -> tuple[str, ...]:
        """Directories that are there before the program starts."""
        return ()

    def files(self, job: Job, world: World, node: Node, places: Places) -> tuple[File, ...]:
        """Files that the node writes for itself before the program starts."""
        return ()

    def setup(self, job: Job, places: Places) -> str:
        """A script that bash runs once per node after the job's own `setup`; what it exports reaches the ranks."""
        return ""

    def prefix(self, job: Job, places: Places) -> dict[str, tuple[str, ...]]:
        """Entries that come first in variables that hold lists."""
        return {}

    def log(self, job: Job, world: World, node: Node) -> dict[str, tuple[str, ...]]:
        """The file names under which logs are copied to `log_url`, each with the processes whose logs make it up."""
        return {f"{name}.log": (name,) for name in logged(job, node)}


def logged(job: Job, node: Node) -> list[str]:
    """The processes of a node whose logs are copied: those of the program, also of one that is a parameter server."""
    servers = [task(job, node.index)] if node.role == PS else []
    return [*(name for name, _, index in job.programs if index == node.index), *servers]


def task(job: Job, index: int) -> str:
    """The role of a node with its number in that role: workers come first, parameter servers after them."""
    return f"{WORKER}-{index}" if index < job.nodes else f"{PS}-{index - job.nodes}"

"""Finds which trainers of a node train together, in the command lines and environments that launchers gave them.

A launcher that does not know of the other nodes starts a training of its own on each of them, and all of them succeed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from muster.agent.node.loop import Loop
from muster.agent.node.processes import Processes, Running
from muster.job import Job
from muster.linux import proc

OFTEN, FIRST_LOOKS = 0.5, 20  # seconds between two looks, of which there are so many
SELDOM = 5.0  # seconds between two looks later on
MOST_PROCESSES = 1000  # of one rank that are looked at
NUMBER = re.compile("[0-9]{1,6}")
LONGEST_NAME = 100

# How the trainers of a tree were started: by a launcher that is the rank's command, or by one that a program of it started.
BY_MUSTER, DIRECT, BENEATH = "by Muster", "direct", "beneath"
Tree = tuple[int, str]  # a rank, and one of these

# Variables by which launchers give a trainer the size of its world, and its rank in it.
RANK_OF = {
    "PADDLE_TRAINERS_NUM": "PADDLE_TRAINER_ID",
    "WORLD_SIZE": "RANK",
    "RANK_SIZE": "RANK_ID",
    "MS_WORKER_NUM": "MS_NODE_ID",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "PMI_SIZE": "PMI_RANK",
    "HOROVOD_SIZE": "HOROVOD_RANK",
}
OWN = {"pytorch": "WORLD_SIZE", "paddle": "PADDLE_TRAINERS_NUM", "mindspore": "RANK_SIZE"}  # set by Muster
WRAPPERS = "sh bash dash zsh ksh env nohup nice stdbuf setsid sudo timeout numactl taskset".split()
LAUNCHERS = (
    *("torchrun", "fleetrun", "msrun", "horovodrun", "deepspeed", "accelerate"),
    *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prted"),
)
MODULES = (
    *("torch.distributed.run", "torch.distributed.launch", "paddle.distributed.launch", "paddle.distributed.fleet.launch"),
    *("deepspeed.launcher.runner", "deepspeed.launcher.launch", "accelerate.commands.launch"),
    *("mindspore.parallel.cluster.run", "horovod.runner"),
)


class Trainer(NamedTuple):
    """A process that takes part in a training of `size` as number `rank`, as one of its variables says."""

    variable: str
    size: int
    rank: int
    program: str
    launcher: str  # who started it; empty where no launcher did


class TrainerGroups:
    """Looks now and then at what the ranks of a node have started, and keeps what worlds of trainers there were."""

    def __init__(self, job: Job, loop: Loop, processes: Processes) -> None:
        self._variable = OWN.get(job.framework, "")
        self._wanted = job.ranks > 1 and not job.servers
        self._loop = loop
        self._processes = processes
        self._looks = 0
        self._whole: dict[tuple[Tree, ...], Trainer] = {}  # by trees in which all trainers of a world are
        self._partial: set[tuple[Tree, str, int]] = set()  # with variable and size of worlds of which a tree has some alone
        self._launching: dict[int, int] = {}  # by rank, in how many more looks a program of it had a launcher than had none

    def begin(self) -> None:
        """The ranks run."""
        if self._wanted:
            self._loop.later(OFTEN, self._go_on)

    def to_json(self) -> dict[str, Any]:
        """The worlds that are complete on this node, and whether one had trainers elsewhere."""
        whole: dict[tuple[int, ...], Trainer] = {}
        for trees, one in self._whole.items():
            if all(kind != BENEATH or self._starts_launchers(rank) for rank, kind in trees):
                whole.setdefault(tuple(sorted({rank for rank, _ in trees})), one)
        widest = [ranks for ranks in sorted(whole) if not any(set(ranks) < set(other) for other in whole)]
        complete = [dict(whole[ranks]._asdict(), ranks=list(ranks)) for ranks in widest]
        inside = {(tree, one.variable, one.size) for trees, one in self._whole.items() for tree in trees}
        elsewhere = [tree for tree, *_ in self._partial - inside]
        return {
            "complete": complete,
            "joined": any(kind != BY_MUSTER or not self._starts_launchers(rank) for rank, kind in elsewhere),
        }

    def _starts_launchers(self, rank: int) -> bool:
        """True if the programs of a rank are there to start launchers; a trainer may start one as well, to evaluate."""
        return self._launching.get(rank, 0) > 0

    def _go_on(self) -> None:
        self.look([process for process in self._processes.running.values() if process.rank >= 0])
        self._looks += 1
        self._loop.later(OFTEN if self._looks < FIRST_LOOKS else SELDOM, self._go_on)

    def look(self, ranks: Sequence[Running]) -> None:
        found: dict[tuple[str, int], dict[Tree, dict[int, Trainer]]] = {}  # by variable and size, tree, own number
        for rank in ranks:
            kinds, programs, launching = look_at(rank.pid, self._variable)
            if programs:
                self._launching[rank.rank] = self._launching.get(rank.rank, 0) + (1 if launching else -1)
            for kind, trainers in kinds.items():
                for one in trainers:
                    found.setdefault((one.variable, one.size), {}).setdefault((rank.rank, kind), {})[one.rank] = one
        for (variable, size), trees in found.items():
            parts = {tree: numbers for tree, numbers in trees.items() if len(numbers) < size}
            for tree in trees.keys() - parts.keys():
                self._whole.setdefault((tree,), next(iter(trees[tree].values())))
            ranks_of_world = [own for numbers in parts.values() for own in numbers]
            if parts and len(ranks_of_world) == len(set(ranks_of_world)) == size:
                self._whole.setdefault(tuple(sorted(parts)), next(iter(parts[min(parts)].values())))
            self._partial |= {(tree, variable, size) for tree in parts}


def look_at(root: int, variable: str) -> tuple[dict[str, list[Trainer]], bool, bool]:
    """The trainers of a rank, by how they were started, and whether it has programs that may start launchers, and one that has.

    What a trainer starts in turn, to load data or to evaluate, is none, unless a launcher does. `variable` has the size of
    the world that Muster gave a rank; a program of it does not train there itself if it has started a launcher.
    """
    found: dict[str, list[Trainer]] = {BY_MUSTER: [], DIRECT: [], BENEATH: []}
    programs = launching = False
    queue = [(root, "", False)]  # with the launcher above, and whether a program is
    for pid, launcher, beneath in islice(queue, MOST_PROCESSES):
        words = proc.command_line(pid).decode("utf-8", "replace").split("\0")
        name = _launcher(words)
        if name or os.path.basename(words[0]) in WRAPPERS:
            launching |= bool(name and beneath)
        elif launcher:
            kind = BENEATH if beneath else DIRECT
            found[kind] += _trainers(proc.environment(pid), RANK_OF, _program(words), launcher)
            continue
        elif not beneath:
            found[BY_MUSTER] += _trainers(proc.environment(pid), filter(None, [variable]), _program(words), "")
            programs = beneath = True
        queue += [(child, name or launcher, beneath) for child in proc.children(pid)]
    if launching:
        found[BY_MUSTER] = []
    return found, programs, launching


def _trainers(env: dict[str, str], names: Iterable[str], program: str, launcher: str) -> Iterator[Trainer]:
    for name in names:
        size, rank = env.get(name, ""), env.get(RANK_OF[name], "")
        if NUMBER.fullmatch(size) and NUMBER.fullmatch(rank) and int(size) > 0:
            yield Trainer(name, int(size), int(rank), program, launcher)


def _launcher(words: Sequence[str]) -> str:
    """The launcher that a command line starts, if it does."""
    name = os.path.basename(words[0])
    if name.startswith("python"):
        valued = {index + 1 for index, word in enumerate(words) if word in ("-W", "-X")}
        others = ((index, word) for index, word in enumerate(words[1:], 1) if index not in valued)
        place = next((index for index, word in others if word == "-m" or not word.startswith("-")), 0)
        if words[place] == "-m":
            module = words[place + 1] if place + 1 < len(words) else ""
            return module if module in MODULES else ""
        name = os.path.basename(words[place])
    return name if name in LAUNCHERS else ""


def _program(words: Sequence[str]) -> str:
    """The name of a program for people: its script, if it has one."""
    script = next((word for word in words[1:] if word.endswith(".py")), words[0])
    return os.path.basename(script)[:LONGEST_NAME]

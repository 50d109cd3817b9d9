"""Which trainers of a node train together, as their launchers told them: found in their command lines and environments.

A launcher that was not told of the other nodes starts a training of its own on each of them, and all of them end well.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, NamedTuple, Sequence, Set, Tuple

from muster.agent.loop import Loop
from muster.agent.processes import Processes, Running
from muster.job import Job
from muster.runs import proc

OFTEN, FIRST_LOOKS = 0.5, 20  # seconds between two looks, of which there are so many
SELDOM = 5.0  # seconds between two looks later on
MOST_PROCESSES = 1000  # of one rank that are looked at
NUMBER = re.compile("[0-9]{1,6}")
LONGEST_NAME = 100

# How many train together, and which of them a process is, as launchers tell trainers.
RANK_OF = {
    "PADDLE_TRAINERS_NUM": "PADDLE_TRAINER_ID",
    "WORLD_SIZE": "RANK",
    "RANK_SIZE": "RANK_ID",
    "MS_WORKER_NUM": "MS_NODE_ID",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",
    "PMI_SIZE": "PMI_RANK",
    "HOROVOD_SIZE": "HOROVOD_RANK",
}
OWN = {"pytorch": "WORLD_SIZE", "paddle": "PADDLE_TRAINERS_NUM", "mindspore": "RANK_SIZE"}  # what Muster tells its ranks
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


class Worlds:
    """Looks now and then at what the ranks of a node have started, and keeps what worlds of trainers there were."""

    def __init__(self, job: Job, loop: Loop, processes: Processes) -> None:
        self._variable = OWN.get(job.framework, "")
        self._wanted = job.ranks > 1 and not job.servers
        self._loop = loop
        self._processes = processes
        self._looks = 0
        self._whole: Dict[Tuple[int, ...], Trainer] = {}  # by ranks, in whose trees all trainers of a world are
        self._partial: Set[Tuple[int, str, int]] = set()  # rank, variable and size of worlds of which a tree has some alone

    def begin(self) -> None:
        """The ranks run."""
        if self._wanted:
            self._loop.later(OFTEN, self._go_on)

    def to_json(self) -> Dict[str, Any]:
        """What there was: worlds that are complete on this node, and whether one had trainers elsewhere."""
        inside = {(rank, one.variable, one.size) for ranks, one in self._whole.items() for rank in ranks}
        widest = [ranks for ranks in sorted(self._whole) if not any(set(ranks) < set(other) for other in self._whole)]
        complete = [dict(self._whole[ranks]._asdict(), ranks=list(ranks)) for ranks in widest]
        return {"complete": complete, "joined": bool(self._partial - inside)}

    def _go_on(self) -> None:
        self.look([process for process in self._processes.running.values() if process.rank >= 0])
        self._looks += 1
        self._loop.later(OFTEN if self._looks < FIRST_LOOKS else SELDOM, self._go_on)

    def look(self, ranks: Sequence[Running]) -> None:
        found: Dict[Tuple[str, int], Dict[int, Dict[int, Trainer]]] = {}  # by variable and size, rank of Muster, own number
        for rank in ranks:
            for one in trainers(rank.pid, self._variable):
                found.setdefault((one.variable, one.size), {}).setdefault(rank.rank, {})[one.rank] = one
        for (variable, size), trees in found.items():
            parts = {rank: numbers for rank, numbers in trees.items() if len(numbers) < size}
            for number in trees.keys() - parts.keys():
                self._whole.setdefault((number,), next(iter(trees[number].values())))
            told = [own for tree in parts.values() for own in tree]
            if parts and len(told) == len(set(told)) == size:
                self._whole.setdefault(tuple(sorted(parts)), next(iter(parts[min(parts)].values())))
            self._partial |= {(number, variable, size) for number in parts}


def trainers(root: int, variable: str = "") -> Iterator[Trainer]:
    """What a rank has started to train: by launchers, or itself, where `variable` is what Muster told it of its world.

    What a trainer starts in turn, to load data or to evaluate, is none.
    """
    queue = [(root, "")]  # with the launcher above
    for pid, launcher in islice(queue, MOST_PROCESSES):
        words = proc.command_line(pid).decode("utf-8", "replace").split("\0")
        if os.path.basename(words[0]) in WRAPPERS:
            queue += [(child, launcher) for child in proc.children(pid)]
        elif _launcher(words):
            queue += [(child, _launcher(words)) for child in proc.children(pid)]
        else:
            names = RANK_OF if launcher else filter(None, [variable])
            yield from _told(proc.environment(pid), names, _program(words), launcher)


def _told(env: Dict[str, str], names: Iterable[str], program: str, launcher: str) -> Iterator[Trainer]:
    for name in names:
        size, rank = env.get(name, ""), env.get(RANK_OF[name], "")
        if NUMBER.fullmatch(size) and NUMBER.fullmatch(rank) and int(size) > 0:
            yield Trainer(name, int(size), int(rank), program, launcher)


def _launcher(words: Sequence[str]) -> str:
    """The launcher that a command line starts, if it does."""
    name = os.path.basename(words[0])
    if name.startswith("python"):
        place = next((index for index, word in enumerate(words[1:], 1) if word == "-m" or not word.startswith("-")), 0)
        if words[place] == "-m":
            module = words[place + 1] if place + 1 < len(words) else ""
            return module if module in MODULES else ""
        name = os.path.basename(words[place])
    return name if name in LAUNCHERS else ""


def _program(words: Sequence[str]) -> str:
    """What people call a program: its script, if it has one."""
    script = next((word for word in words[1:] if word.endswith(".py")), words[0])
    return os.path.basename(script)[:LONGEST_NAME]

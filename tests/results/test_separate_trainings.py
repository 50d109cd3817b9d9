"""Ranks that train apart although their job has one training: the run says so, and no number is summed over them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import Muster, WriteJob
from muster.agent.node.processes import Running
from muster.agent.node.trainer_groups import TrainerGroups
from muster.job import Bench, Job
from muster.linux import proc
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
    "start.py": "import os, sys\nsys.exit(os.system('python -W ignore torchrun WORLD_SIZE 2 0 2 train.py'))\n",
}
ALONE = "python -m paddle.distributed.launch PADDLE_TRAINERS_NUM 1 0 1 train.py"
JOINED = "python -m paddle.distributed.launch PADDLE_TRAINERS_NUM 2 $MUSTER_NODE 1 train.py"


@pytest.mark.long
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


@pytest.mark.long
def test_a_program_that_starts_a_launcher_on_each_node(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"nodes": 2, "framework": "pytorch", "boot": "start.py"}, **FILES))
    assert view["state"] == "succeeded"
    (warning,) = view["warnings"]
    assert "train.py had WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks on 2 nodes" in warning


@pytest.mark.long
def test_a_training_together_with_evaluations_apart_gives_no_warning(run_json: RunJson, write_job: WriteJob) -> None:
    command = f"bash -c '{JOINED}; {ALONE.replace('train', 'evaluate')}'"
    view = run_json(write_job({"nodes": 2, "command": command}, **FILES))
    assert (view["state"], view["warnings"]) == ("succeeded", [])


RECORD = "import time\nfrom muster import record\nrecord.metric('throughput', 100.0)\ntime.sleep(3)\n"


@pytest.mark.long
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


@dataclass(frozen=True)
class Made:
    """A process that is made up, with the variables that it has beside those of its parent."""

    words: str
    env: Mapping[str, object] = field(default_factory=dict)
    children: tuple[Made, ...] = ()


def program(words: str, *children: Made, **env: object) -> Made:
    return Made(words, env, children)


def trainer(size: str, rank: str, number: int, of: int, script: str = "train.py") -> Made:
    """One of so many trainers, with a process that loads its data."""
    return Made(f"python {script}", {size: of, rank: number}, (Made("sleep 1000"),))


def paddle(number: int, of: int, script: str = "train.py") -> Made:
    one = trainer("PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", number, of, script)
    return program(f"python -m paddle.distributed.launch {script}", one)


def torch(script: str = "train.py", options: str = "") -> Made:
    """A launcher whose two trainers are complete on their node."""
    both = [trainer("WORLD_SIZE", "RANK", number, 2, script) for number in (0, 1)]
    return program(f"python {options}torchrun {script}", *both)


def both_nodes(tree: Callable[[int], Made]) -> list[list[list[Made]]]:
    """One rank on each of two nodes, of which nothing changes."""
    return [[[tree(0)]], [[tree(1)]]]


class Machine:
    """What /proc shows of processes that are made up."""

    def __init__(self) -> None:
        self._words: dict[int, bytes] = {}
        self._environments: dict[int, dict[str, str]] = {}
        self._children: dict[int, list[int]] = {}

    def start(self, made: Made, inherited: Mapping[str, str] | None = None) -> int:
        """Adds a process and those below it; returns its id."""
        pid = len(self._words) + 1
        self._words[pid] = made.words.replace(" ", "\0").encode()
        self._environments[pid] = {**(inherited or {}), **{name: str(value) for name, value in made.env.items()}}
        self._children[pid] = [self.start(child, self._environments[pid]) for child in made.children]
        return pid

    @contextmanager
    def shown(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(proc, "command_line", self._words.__getitem__)
            patch.setattr(proc, "environment", self._environments.__getitem__)
            patch.setattr(proc, "children", self._children.__getitem__)
            yield


def watched(job: Job, ranks: Sequence[Sequence[Made]]) -> dict[str, Any]:
    """What an agent records of its ranks, each of which has these processes at one look after the other."""
    groups = TrainerGroups(job, *cast(Any, (None, None)))
    for look in zip_longest(*ranks):
        machine = Machine()
        running = [Running(f"rank-{rank}", machine.start(made), rank, 0.0) for rank, made in enumerate(look) if made]
        with machine.shown():
            groups.look(running)
    return groups.to_json()


def warning(job: Job, nodes: Sequence[Sequence[Sequence[Made]]], folder: Path) -> str:
    """What is said of a run with such ranks on its nodes."""
    return separate(ended(folder, *(watched(job, ranks) if ranks else complete() for ranks in nodes)), job)


def own(node: int, *children: Made) -> Made:
    """A program that is a rank of PyTorch, with what it starts."""
    return program("python own.py", *children, WORLD_SIZE=2, RANK=node)


TORCH = Job(nodes=2, framework="pytorch", boot="own.py")
SHELL = "sh -c python"
EVALUATES = program("bash -c python", program("python evaluate.py", WORLD_SIZE=1, RANK=0))
SERVERS = Job(nodes=2, bench=Bench(scope="server"))


@pytest.mark.parametrize(
    ("job", "nodes", "told"),
    [
        (
            TWO,
            both_nodes(lambda node: program("bash -c python", paddle(0, 1))),
            "train.py had PADDLE_TRAINERS_NUM=1 on node 0 and node 1, set by paddle.distributed.launch; the job has 2 ranks",
        ),
        (
            TWO,
            both_nodes(lambda node: torch()),
            "WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks",
        ),
        (
            TWO,
            both_nodes(lambda node: program("python start.py", program(SHELL, torch(options="-W ignore ")))),
            "train.py had WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks on 2 nodes",
        ),
        (
            TORCH,
            both_nodes(lambda node: own(node, program(SHELL, torch()))),
            "train.py had WORLD_SIZE=2 on node 0 and node 1, set by torchrun; the job has 2 ranks on 2 nodes",
        ),
        (
            Job(nodes=1, devices=3, framework="paddle", command="launch"),
            [[[paddle(0, 1)], [paddle(0, 1)], [paddle(0, 1)]]],
            "PADDLE_TRAINERS_NUM=1 on node 0 (3 times), set by paddle.distributed.launch; the job has 3 ranks on 1 node",
        ),
        (
            TORCH,
            both_nodes(lambda node: trainer("WORLD_SIZE", "RANK", node, 1)),
            "WORLD_SIZE=1 on node 0 and node 1; the job has 2 ranks on 2 nodes: leave WORLD_SIZE to Muster",
        ),
    ],
)
def test_every_way_to_be_left_alone(job: Job, nodes: list[list[list[Made]]], told: str, tmp_path: Path) -> None:
    assert told in warning(job, nodes, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("job", "nodes"),
    [
        (TWO, both_nodes(lambda node: paddle(node, 2))),
        (TWO, [[[paddle(node, 2), paddle(0, 1, "evaluate.py")]] for node in (0, 1)]),
        (TWO, [[[paddle(0, 1, "evaluate.py"), paddle(node, 2)]] for node in (0, 1)]),
        (TORCH, both_nodes(lambda node: own(node, EVALUATES))),
        (Job(nodes=1, devices=2, framework="pytorch", boot="own.py"), [[[own(0, EVALUATES)], [own(1, EVALUATES)]]]),
        (TWO, both_nodes(lambda node: trainer("WORLD_SIZE", "RANK", 0, 1))),  # nobody says that it is a training
        (TWO, both_nodes(lambda node: program("python own.py", EVALUATES))),
        (TWO, both_nodes(lambda node: program("python start.py", program(SHELL, paddle(node, 2))))),
        (TORCH, both_nodes(lambda node: own(node, program(SHELL, paddle(node, 2))))),
        (TWO, [[[*[program("python own.py")] * 9, *[program("python own.py", program(SHELL, torch()))] * 2]]] * 2),
        (TORCH, [[[*[own(node)] * 9, *[own(node, program(SHELL, torch()))] * 2]] for node in (0, 1)]),
        (SERVERS, both_nodes(lambda node: paddle(0, 1))),
        (replace(SERVERS, env={"SINGLESERVER_MODE": "True"}), both_nodes(lambda node: paddle(0, 1))),
        (Job(nodes=1, devices=2), [[[torch()]]]),
        (TWO, [[[paddle(0, 1)]], []]),
    ],
)
def test_what_is_as_it_should_be_gives_no_warning(job: Job, nodes: list[list[list[Made]]], tmp_path: Path) -> None:
    assert warning(job, nodes, tmp_path) == ""

"""Plans of MPI where a batch system starts the ranks: its launcher on the first node, a reception for them on each."""

from __future__ import annotations

from dataclasses import replace

from worlds import PLACES, RUN, facts, job

from muster.job import Job
from muster.plan import World, assemble, build

ASKED = job(framework="mpi", command=("./train", "-v"))


def world(asked: Job) -> World:
    known = [replace(facts(node), launcher=("srun", "task"), reception=("receive", str(node))) for node in range(asked.nodes)]
    return assemble(asked, RUN, 1, known)


def test_the_launcher_runs_on_the_first_node_and_a_reception_on_each() -> None:
    first, second = (build(ASKED, world(ASKED), index, PLACES) for index in (0, 1))
    assert [(process.name, process.argv) for process in first.processes] == [
        ("reception", ("receive", "0")),
        ("main", ("srun", "task", "./train", "-v")),
    ]
    assert [(process.name, process.argv) for process in second.processes] == [("reception", ("receive", "1"))]


def test_the_launcher_waits_for_all_receptions_and_needs_no_ssh() -> None:
    plan = build(ASKED, world(ASKED), 0, PLACES)
    assert plan.together
    assert plan.ssh == 0
    assert plan.files == ()


def test_a_reception_has_the_environment_of_its_node_for_the_ranks() -> None:
    env = build(replace(ASKED, env={"GLOG_v": "3"}), world(ASKED), 1, PLACES).processes[0].env
    assert (env["MUSTER_NODE"], env["GLOG_v"]) == ("1", "3")


def test_a_world_is_read_as_it_was_written() -> None:
    assert World.from_json(world(ASKED).to_json()) == world(ASKED)

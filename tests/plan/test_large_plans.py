"""Plans for ten thousand ranks: each node computes its own, and no step of it grows faster than the world does."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from worlds import PLACES, RUN, facts, job, many_nodes

from conftest import Muster, WriteJob
from muster.job import Job
from muster.plan import PlanError, World, assemble, build, world_files
from muster.plan.build import MOST_ENV

NODES, DEVICES = 1250, 8

LARGE: dict[str, dict[str, Any]] = {
    "command per node": {"framework": "command"},
    "command per device": {"framework": "command", "per": "device"},
    "pytorch": {"framework": "pytorch"},
    "mindspore cluster": {"framework": "mindspore", "rank_table": "none"},
    "mindspore lab": {"framework": "mindspore", "rank_table": "lab"},
    "mindspore pods": {"framework": "mindspore", "rank_table": "pods"},
    "mindspore 1.0": {"framework": "mindspore", "rank_table": "1.0"},
}
SMALLER: dict[str, dict[str, Any]] = {
    **LARGE,
    "paddle": {"framework": "paddle"},
    "tensorflow": {"framework": "tensorflow"},
}


def kind(asked: Job) -> str:
    return "ascend" if asked.framework == "mindspore" else "cpu"


@pytest.mark.long
@pytest.mark.parametrize("case", LARGE)
def test_any_node_of_ten_thousand_ranks_has_a_plan(case: str) -> None:
    asked = job(nodes=NODES, devices=DEVICES, **LARGE[case])
    world = many_nodes(asked, kind(asked))
    for index in (0, 617, NODES - 1):
        plan = build(asked, world, index, PLACES)
        ranks = [process.rank for process in plan.processes if process.rank >= 0]
        first = index * world.per_node
        assert ranks == list(range(first, first + world.per_node))
        assert {process.env["MUSTER_WORLD_SIZE"] for process in plan.processes} == {str(world.size)}
    if asked.rank_table in ("lab", "1.0"):
        (text,) = world_files(asked, world, PLACES.node).values()
        assert text.count('"rank_id"') == NODES * DEVICES
        assert '"rank_id": "9999"' in text


@pytest.mark.parametrize(("framework", "name"), [("paddle", "PADDLE_TRAINER_ENDPOINTS"), ("tensorflow", "TF_CONFIG")])
def test_a_variable_that_linux_would_not_take_is_refused_with_its_name_and_advice(framework: str, name: str) -> None:
    asked = job(nodes=NODES, devices=DEVICES, framework=framework)
    with pytest.raises(PlanError) as refused:
        build(asked, many_nodes(asked), NODES - 1, PLACES)
    assert name in str(refused.value)
    assert "Linux allows 131071" in str(refused.value)
    assert "fewer" in str(refused.value)


def test_a_thousand_ranks_that_list_each_other_have_a_plan() -> None:
    for framework in ("paddle", "tensorflow"):
        asked = job(nodes=125, devices=DEVICES, framework=framework)
        assert len(build(asked, many_nodes(asked), 124, PLACES).processes) == DEVICES


@pytest.mark.parametrize("text", ["x", "ü"])
def test_the_longest_variable_that_is_planned_is_the_longest_that_a_process_can_be_given(text: str) -> None:
    longest = text * ((MOST_ENV - len("BIG=")) // len(text.encode()))
    longest += "x" * (MOST_ENV - len("BIG=") - len(longest.encode()))

    def planned(value: str) -> dict[str, str]:
        asked = job(framework="command", nodes=1, env={"BIG": value})
        return build(asked, assemble(asked, RUN, 1, [facts(0)]), 0, PLACES).processes[0].env

    assert subprocess.run(["true"], env=planned(longest)).returncode == 0
    with pytest.raises(PlanError, match=r"BIG would take 131072 bytes.*shorten it"):
        planned(longest + "x")
    with pytest.raises(OSError) as error:
        subprocess.run(["true"], env={"BIG": longest + "x"})
    assert error.value.errno == errno.E2BIG


def test_a_run_that_cannot_be_planned_fails_and_says_why(muster: Muster, write_job: WriteJob) -> None:
    """Once, for trying again would change nothing."""
    asked = write_job({"framework": "paddle", "nodes": 3, "devices": 3000, "command": "true", "retries": 2})
    done = muster("run", asked, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["state"] == "failed"
    assert "PADDLE_TRAINER_ENDPOINTS" in told["reason"]
    assert "Linux allows" in told["reason"]
    assert os.listdir(f"{told['dir']}/attempts") == ["1"]


# -- how work grows


class Seen(str):
    """A text whose comparisons are steps that can be counted, also those that C code makes."""

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return str.__ne__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def steps(work: Callable[[], object]) -> int:
    """How many instructions of Python a piece of work takes."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        frame.f_trace_opcodes = True
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def seen(world: World) -> World:
    nodes = [replace(node, info=replace(node.info, address=Seen(node.address))) for node in world.nodes]
    return replace(world, nodes=tuple(nodes))


@pytest.mark.parametrize("case", SMALLER)
def test_twice_the_nodes_take_twice_the_steps(case: str) -> None:
    def measure(nodes: int) -> int:
        asked = job(nodes=nodes, devices=4, **SMALLER[case])
        world = seen(many_nodes(asked, kind(asked)))

        def plan() -> None:
            build(asked, world, nodes - 1, PLACES)
            world_files(asked, world, PLACES.node)

        return steps(plan)

    small, middle, large = measure(20), measure(40), measure(80)
    assert large - middle <= 2.1 * (middle - small) + 100


def test_assembling_and_publishing_a_world_takes_steps_in_proportion_to_its_nodes() -> None:
    def measure(nodes: int) -> int:
        asked = job(nodes=nodes, devices=2, framework="pytorch")
        reported = [node.info for node in many_nodes(asked).nodes][::-1]
        return steps(lambda: World.from_json(assemble(asked, RUN, 1, reported).to_json()))

    small, middle, large = measure(20), measure(40), measure(80)
    assert large - middle <= 2.1 * (middle - small) + 100


def test_the_counter_would_see_a_step_that_is_quadratic() -> None:
    def measure(size: int) -> int:
        words = [Seen(number) for number in range(size)]
        return steps(lambda: [words.count(word) for word in words])

    small, middle, large = measure(20), measure(40), measure(80)
    assert large - middle > 3 * (middle - small)

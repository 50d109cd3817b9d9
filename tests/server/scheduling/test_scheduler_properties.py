"""What holds for every queue: nothing is given twice, nobody is delayed or forgotten, and only those go who may."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_queues import mixed_simulation, random_jobs, random_simulation, random_state
from scheduler_cluster import Simulation, faults, job, lab, run, started, without

from muster.server.runs.scheduling.capacity.pool_ledger import PoolLedger
from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.explain import explain, preview
from muster.server.runs.scheduling.model import Demand, Node, Pool, Running, State, Waiting

SEEDS = st.integers(0, 2**32)
THOROUGH = settings(deadline=None, max_examples=100)


@given(SEEDS)
@THOROUGH
def test_no_pass_gives_more_than_there_is_and_gangs_start_whole(seed: int) -> None:
    state = random_state(seed)
    decision = decide(state)
    assert faults(state.pools, [*state.running, *started(state, decision)]) == []
    new = [replace(run, started=0.0) for run in started(state, decision)]
    assert faults(state.pools, new) == []  # none of them on a node that is not usable


@given(SEEDS)
@THOROUGH
def test_the_order_of_the_input_changes_nothing(seed: int) -> None:
    state, draw = random_state(seed), random.Random(seed)
    shuffled = replace(
        state,
        waiting=tuple(draw.sample(state.waiting, len(state.waiting))),
        running=tuple(draw.sample(state.running, len(state.running))),
        pools=tuple(reversed(state.pools)),
    )
    one, other = decide(state), decide(shuffled)
    assert one.starts == other.starts
    assert one.preemptions == other.preemptions or set(one.preemptions) == set(other.preemptions)
    assert set(one.reservations) == set(other.reservations)
    assert one.order == other.order
    for waiting in state.waiting:
        if waiting.id not in {start.run for start in one.starts}:
            assert explain(state, one, waiting.id) == explain(shuffled, other, waiting.id)


@given(SEEDS)
@THOROUGH
def test_everybody_starts_or_has_a_reason_in_both_languages(seed: int) -> None:
    state = random_state(seed)
    decision = decide(state)
    starts = {start.run for start in decision.starts}
    assert len(starts) == len(decision.starts)
    for waiting in state.waiting:
        if waiting.id not in starts:
            wait = explain(state, decision, waiting.id)
            assert wait.reasons and wait.words("en") and wait.words("zh")
            assert (wait.position is None) == (waiting.blocked is not None)
            assert "next_pass" not in {reason.code for reason in wait.reasons}
    for pool in state.pools:
        eligible = [each.id for each in state.waiting if each.pool == pool.name and not each.blocked and each.id not in starts]
        assert sorted(each.id for each in decision.order[pool.name]) == sorted(eligible)


@given(SEEDS)
@THOROUGH
def test_non_preemptible_runs_never_start_over_a_quota(seed: int) -> None:
    state = random_state(seed)
    new = [run for run in started(state, decide(state)) if not run.preemptible]
    for (project, user, kind), most in state.quotas.items():

        def counts(run: Running, of: tuple[str, str, str] = (project, user, kind)) -> bool:
            return not run.preemptible and (run.project, run.demand.kind) == (of[0], of[2]) and of[1] in ("", run.user)

        if any(counts(run) for run in new):
            assert sum(run.demand.total for run in [*state.running, *new] if counts(run)) <= most


@given(SEEDS)
@THOROUGH
def test_runs_without_a_limit_are_never_backfilled(seed: int) -> None:
    state = random_state(seed)
    decision = decide(state)
    limits = {waiting.id: waiting.limit for waiting in state.waiting}
    assert all(limits[start.run] is not None for start in decision.starts if start.overtakes)
    heads = {(kept.pool, kept.kind): kept.run for kept in decision.reservations}
    assert len(heads) == len(decision.reservations)  # one for each pool and kind


@given(SEEDS)
@THOROUGH
def test_what_is_kept_is_still_possible_after_all_starts(seed: int) -> None:
    """At the moment of a reservation, runs that then still run by their limits leave its place free."""
    state = random_state(seed)
    decision = decide(state)
    leaving = {preemption.victim for preemption in decision.preemptions}
    by_id = {waiting.id: waiting for waiting in state.waiting}
    for kept in decision.reservations:
        head = by_id[kept.run]
        new = started(state, decision)
        backfilled = {start.run for start in decision.starts if kept.run in start.overtakes}
        pools = state.pools
        if kept.at is None:  # nobody knows when it is needed: what was backfilled is not there at all
            still = [run for run in new if run.id in backfilled]
            pools = tuple(replace(pool, nodes=tuple(replace(node, held={}) for node in pool.nodes)) for pool in pools)
        else:
            still = [
                run for run in [*state.running, *new]
                if not run.leaving and run.id not in leaving and (run.limit is None or run.started + run.limit > kept.at)
            ]  # fmt: skip
        place = Running(head.id, "", "", kept.pool, head.demand, kept.nodes, state.now, kept.ids)
        assert faults(pools, [*still, place]) == []


@given(SEEDS)
@THOROUGH
def test_preemption_takes_only_who_may_go_and_as_few_as_are_needed_for_a_gang_that_then_fits(seed: int) -> None:
    state = random_state(seed)
    decision = decide(state)
    runs, waits = {run.id: run for run in state.running}, {waiting.id: waiting for waiting in state.waiting}
    pools_by_name = {pool.name: pool for pool in state.pools}
    for made_for in {preemption.made_for for preemption in decision.preemptions}:
        head = waits[made_for]
        gone = [preemption.victim for preemption in decision.preemptions if preemption.made_for == made_for]
        assert not head.preemptible and head.blocked is None
        for victim in (runs[id] for id in gone):
            assert victim.preemptible and not victim.leaving and victim.pool == head.pool
            assert state.now - victim.started >= pools_by_name[victim.pool].minimum_runtime
        if sum(kept.pool == head.pool for kept in decision.reservations) > 1:
            continue  # what is kept for another kind may be in the way as well
        new = started(state, decision)
        there = replace(state, running=(*state.running, *new), waiting=(replace(head, preemptible=True),), quotas={})
        overdue = [
            run.id for run in state.running if run.leaving or (run.limit is not None and run.started + run.limit <= state.now)
        ]
        assert decide(without(there, [*overdue, *gone])).starts
        for victim_id in gone:
            assert not decide(without(there, [*overdue, *(id for id in gone if id != victim_id)])).starts


def test_a_pool_is_not_looked_through_for_each_of_many_that_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    place_in = PoolLedger.place_in

    def counted(*given: Any) -> Any:
        looked.append(given)
        return place_in(*given)

    monkeypatch.setattr(PoolLedger, "place_in", counted)
    running = [
        run(f"r{n}-{two}", [f"n{n}"], 2, "nvidia", ids=((two * 2, two * 2 + 1),), preemptible=True)
        for n in range(1, 51)
        for two in range(4)
    ]
    decision = decide(State(1000.0, (lab(50, "nvidia"),), (job("head", 50, 8, kind="nvidia"),), tuple(running)))
    assert len(decision.preemptions) == 200
    assert len(looked) < 10


@given(SEEDS)
@THOROUGH
def test_a_preview_says_what_the_next_pass_does(seed: int) -> None:
    state = random_state(seed)
    new = random_jobs(random.Random(seed), 3, ("lab", "other"))
    decision = decide(state)
    left = {start.run for start in decision.starts}
    told = {preemption.victim for preemption in decision.preemptions}
    running = tuple(replace(run, leaving=run.leaving or run.id in told) for run in (*state.running, *started(state, decision)))
    after = replace(state, running=running, waiting=tuple(each for each in state.waiting if each.id not in left))
    settled = decide(after)
    for each in new:
        asked = replace(each, id="new", number=99)
        found = preview(after, settled, asked)
        then = decide(replace(after, waiting=(*after.waiting, asked)))
        if settled.starts:
            continue  # the first pass was not the last that starts something
        assert (found.start is not None) == any(start.run == "new" for start in then.starts)


@given(SEEDS)
@THOROUGH
def test_no_reservation_is_ever_delayed_by_runs_behind_it(seed: int) -> None:
    simulation = random_simulation(seed, limits=True).run()
    assert set(simulation.starts) == set(simulation.seconds)
    for head, promised in simulation.promised.items():
        assert simulation.starts[head] <= promised


@given(SEEDS)
@THOROUGH
def test_every_run_starts_in_the_end_with_or_without_limits(seed: int) -> None:
    simulation = random_simulation(seed, limits=False, kinds=("ascend", "nvidia")).run()
    assert set(simulation.starts) == set(simulation.seconds)


@given(SEEDS)
@THOROUGH
def test_every_run_ends_in_the_end_with_projects_shares_and_preemptions(seed: int) -> None:
    """A preempted run gets what it lacks, a project that used much is not forgotten, and only preemptible runs go."""
    simulation = mixed_simulation(seed).run()
    assert set(simulation.starts) == set(simulation.seconds)
    can_go = {job.id for job in simulation.jobs if job.preemptible}
    for state, decision in simulation.passes:
        running = {run.id: run for run in state.running}
        for going in decision.preemptions:
            assert going.victim in can_go and state.now - running[going.victim].started >= 50.0
    last_state, last = simulation.passes[-1]
    assert not last.order["lab"] and not last_state.running


@given(SEEDS)
@THOROUGH
def test_a_head_starts_when_it_was_promised_or_when_those_who_ran_before_it_are_over(seed: int) -> None:
    """Nobody starves within a priority, not even behind runs without limits, and whatever is submitted later."""
    simulation = random_simulation(seed, limits=False).run()
    for head, ran in simulation.ran_with_head.items():
        over = max(simulation.ends[each] for each in ran)
        assert simulation.starts[head] <= simulation.promised.get(head, over)


def test_a_large_run_is_not_starved_by_a_stream_of_small_ones() -> None:
    pool = Pool("lab", tuple(Node(f"n{number}", devices={"ascend": tuple(range(8))}) for number in range(2)))
    small = [Waiting(f"s{n}", n, "ann", "vision", "lab", Demand(1, "ascend", 4), n * 10.0, limit=100.0) for n in range(200)]
    large = Waiting("large", 1000, "bob", "vision", "lab", Demand(2, "ascend", 8), 205.0, limit=100.0)
    simulation = Simulation((pool,), [*small, large], {**{each.id: 100.0 for each in small}, "large": 100.0}).run()
    ahead = max(simulation.ends[each.id] for each in small if each.submitted < 205.0)
    assert simulation.starts["large"] <= ahead


@given(SEEDS)
@THOROUGH
def test_every_run_starts_in_the_end_although_nodes_lack_memory_again_and_again(seed: int) -> None:
    draw = random.Random(seed)
    simulation = random_simulation(seed, limits=False, kinds=("ascend", "nvidia"))
    simulation.flap = lambda node: draw.random() < 0.5
    assert set(simulation.run().starts) == set(simulation.seconds)


@given(SEEDS)
@settings(deadline=None, max_examples=20)
def test_a_large_run_is_not_starved_by_small_ones_that_use_up_the_memory_of_nodes(seed: int) -> None:
    draw = random.Random(seed)
    small = [
        Waiting(f"s{n}", n, "ann", "vision", "lab", Demand(1, "ascend", 4), n * 10.0, limit=float(draw.randint(20, 150)))
        for n in range(100)
    ]
    large = Waiting("large", 1000, "bob", "vision", "lab", Demand(2, "ascend", 8), 205.0, limit=100.0)
    seconds = {each.id: (each.limit or 0.0) * draw.choice((0.5, 1.0)) for each in small}
    simulation = Simulation((lab(2),), [*small, large], {**seconds, "large": 100.0}, flap=lambda node: draw.random() < 0.7)
    simulation.run()
    assert simulation.starts["large"] <= max(simulation.ends[each.id] for each in small if each.submitted < 205.0) + 300.0


def test_a_large_run_over_its_quota_is_not_starved_by_small_ones_of_its_project() -> None:
    pool = Pool("lab", tuple(Node(f"n{number}", devices={"ascend": tuple(range(8))}) for number in range(4)))
    small = [Waiting(f"s{n}", n, "ann", "vision", "lab", Demand(1, "ascend", 4), n * 20.0, limit=100.0) for n in range(100)]
    large = Waiting("large", 1000, "bob", "vision", "lab", Demand(2, "ascend", 8), 205.0, limit=100.0)
    takes = {**{each.id: 100.0 for each in small}, "large": 100.0}
    simulation = Simulation((pool,), [*small, large], takes, {("vision", "", "ascend"): 16}).run()
    ahead = max(simulation.ends[each.id] for each in small if each.submitted < 205.0)
    assert simulation.starts["large"] <= ahead

"""What people read: refusals with the nearest that fits, previews, durations, and words in both languages."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest
from scheduler_cluster import job, lab, node, run

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.explain import explain, preview
from muster.server.runs.scheduling.model import Demand, Estimate, Pool, State, Wait
from muster.server.runs.scheduling.ordering import HALF_LIFE, decayed
from muster.server.runs.scheduling.possible import possible
from muster.server.runs.scheduling.reasons import Reason, drained, paused
from muster.server.runs.scheduling.texts import TEXTS, duration


def refusal(demand: Demand, pool: Pool | None = None) -> str:
    found = possible(pool or lab(2), demand)
    assert found is not None
    if found.nearest is not None:  # it does fit
        assert possible(pool or lab(2), found.nearest) is None
    return found.words()


def test_what_fits_an_empty_pool_is_possible_even_if_its_nodes_are_in_use_or_left_out() -> None:
    out = Pool("lab", (node("n1", unusable=drained("ann")), node("n2", held={"ascend": frozenset(range(8))})))
    assert possible(out, Demand(2, "ascend", 8)) is None
    assert possible(Pool("slurm", passes_on=True), Demand(500, "ascend", 8)) is None


def test_a_refusal_names_the_nearest_that_fits() -> None:
    assert refusal(Demand(3, "ascend", 8)) == (
        "asks for 3 nodes with 8 ascend; the pool lab has 2 such nodes: ask for 2 nodes with 8 ascend"
    )
    assert refusal(Demand(1, "ascend", 3)) == (
        "asks for 3 ascend devices a node, and a node gives 1, 2 or 4 of one ring, or all 8: ask for 1 node with 2 ascend"
    )
    assert refusal(Demand(1, "nvidia", 1)) == "asks for nvidia devices, and the pool lab has none"
    assert refusal(Demand(1, "ascend", 16)).endswith("ask for 1 node with 8 ascend")
    assert refusal(Demand(2, "ascend", 8, servers=1)) == (
        "asks for 2 nodes with 8 ascend and 1 more for its parameter server; the pool lab has no room for all of them: "
        "ask for 1 node with 8 ascend"
    )


def test_a_refusal_names_the_label_or_model_that_no_node_has() -> None:
    pool = Pool("gpus", (node("n1", "nvidia", models={"nvidia": "A100"}, labels={"rack": "a"}),))
    assert refusal(Demand(1, "nvidia", 1, labels=(("rack", "z"),)), pool) == (
        "asks for nodes with rack=z, and no node of the pool gpus has it"
    )
    assert refusal(Demand(1, "nvidia", 1, model="H100"), pool) == (
        "asks for nvidia devices of model H100, and the pool gpus has A100"
    )


@pytest.mark.parametrize("asked", ["910b", "ASCEND 910B", "Ascend910B", "910B3"])
def test_a_part_of_the_name_of_a_model_is_enough_in_any_case(asked: str) -> None:
    pool = Pool("lab", (node("n1", models={"ascend": "Ascend 910A"}), node("n2", models={"ascend": "Ascend 910B3"})))
    wanted = replace(job("new", 1, 8), demand=Demand(1, "ascend", 8, model=asked))
    assert possible(pool, wanted.demand) is None
    [start] = decide(State(0.0, (pool,), (wanted,))).starts
    assert start.nodes == ("n2",)
    assert "of model 310P, and the pool lab has Ascend 910A, Ascend 910B3" in refusal(
        Demand(1, "ascend", 8, model="310P"), pool
    )


def test_a_refusal_for_cpus_or_memory_names_what_the_largest_node_has() -> None:
    pool = Pool("lab", (node("n1", cpus=32), replace(node("n2", cpus=64), memory=8 << 30)))
    assert refusal(Demand(1, "ascend", 8, cpus=100, memory=16 << 30), pool).endswith(
        "ask for 1 node with 8 ascend, 64 CPUs, 8 GiB memory"
    )


def test_a_preview_says_where_a_job_would_start_or_why_it_would_wait() -> None:
    state = State(1000.0, (lab(2),), (), (run("old", ["n1"], 8, started=400.0, limit=3000.0),))
    decision = decide(state)
    found = preview(state, decision, job("new", 1, 8))
    assert found.start is not None and found.start.nodes == ("n2",) and found.wait is None
    found = preview(state, decision, job("wide", 2, 8))
    assert found.start is None and found.wait is not None
    assert found.wait.words() == (
        "1 of 2 nodes with 8 ascend are free, and it needs 2; expected in about 40 min (from time limits)"
    )


def test_a_job_of_one_node_is_told_that_what_is_free_on_one_machine_lies_in_two_rings() -> None:
    held = (run("old", ["n1"], 2, ids=((0, 1),)), run("other", ["n1"], 2, ids=((4, 5),)))
    state = State(0.0, (lab(1, shares_nodes=True),), (), held)
    found = preview(state, decide(state), job("new", 1, 4)).wait
    assert found is not None
    assert found.words() == "it needs 4 ascend, which does not fit into what is free now"
    assert found.words("zh") == "需要 4 个 ascend，现有的空闲资源放不下"


def test_a_preview_knows_its_place_in_the_queue() -> None:
    state = State(1000.0, (lab(1),), (job("head", 1, 8, limit=60.0), job("later", 1, 8, limit=60.0)), (run("old", ["n1"], 4),))
    decision = decide(state)
    low, high = (preview(state, decision, job("new", 1, 8, 9, priority=priority)).wait for priority in (100, 200))
    assert low is not None and low.position == 3
    assert high is not None and high.position == 1


def test_a_run_that_does_not_wait_has_no_explanation() -> None:
    state = State(0.0, (lab(1),), (job("now", 1, 8),))
    decision = decide(state)
    assert [start.run for start in decision.starts] == ["now"]
    with pytest.raises(KeyError):
        explain(state, decision, "now")
    with pytest.raises(KeyError):
        explain(state, decision, "never-heard-of")


def test_estimates_say_what_they_come_from() -> None:
    wait = Wait("x", 1, (paused("ann"),), Estimate(2400.0, limits=True, past=False))
    assert wait.words() == "it was paused by ann; expected in about 40 min (from time limits)"
    assert wait.words("zh") == "已被 ann 暂停；预计约 40 分钟后启动（根据时限估计）"
    both = replace(wait, estimate=Estimate(30.0, limits=True, past=True))
    assert both.words().endswith("expected in less than a minute (from time limits and past runs)")


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (59, "less than a minute", "不到 1 分钟"),
        (60, "about 1 min", "约 1 分钟"),
        (7000, "about 117 min", "约 117 分钟"),
        (7200, "about 2 h", "约 2 小时"),
        (3 * 86400, "about 3 days", "约 3 天"),
    ],
)
def test_durations_are_rough(seconds: float, english: str, chinese: str) -> None:
    assert (duration(seconds, "en"), duration(seconds, "zh")) == (english, chinese)


def test_both_languages_say_the_same_values_and_chinese_is_chinese() -> None:
    for code, texts in TEXTS.items():
        names = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in texts]
        assert names[0] >= names[1], code
        if not all(name in "name why" for name in names[1]):
            assert re.search("[\u4e00-\u9fff]", texts[1]), code


def test_numbers_have_their_words() -> None:
    about = {"runs": 1}
    assert Reason("runs", about).words() == "the pool has 1 run, and takes no more at once"
    assert Reason("runs", {"runs": 2}).words() == "the pool has 2 runs, and takes no more at once"


def test_use_counts_half_after_a_week() -> None:
    assert decayed(100.0, HALF_LIFE) == 50.0
    assert decayed(100.0, 0.0) == 100.0

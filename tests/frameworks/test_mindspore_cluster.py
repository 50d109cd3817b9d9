"""MindSpore's dynamic cluster on a CPU, with the version that old scripts need and with the newest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_framework_examples import programs as programs

from conftest import Muster, WriteJob

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("version", ["mindspore-2.0", "mindspore"])]

TOPOLOGY_LIMIT = 5  # seconds after which a scheduler gives up that waits for its workers

ALONE = f"""
import time
import mindspore
from mindspore import Tensor, context

context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
time.sleep({3 * TOPOLOGY_LIMIT})
print("trained", float((Tensor([1.0]) * 2).asnumpy()[0]), flush=True)
"""

# Ranks that prepare for longer than a scheduler would wait, meet, and add up what they have.
LATE = f"""
import os, time
import mindspore
import numpy as np
from mindspore import Tensor, context, nn, ops
from mindspore.communication import get_group_size, get_rank, init

time.sleep({3 * TOPOLOGY_LIMIT})
open(os.path.join(os.environ["MUSTER_SHARED"], os.environ["RANK_ID"]), "w").close()
while len(os.listdir(os.environ["MUSTER_SHARED"])) < 2:
    time.sleep(0.1)
context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
init()

class Sum(nn.Cell):
    def __init__(self):
        super().__init__()
        self.add = ops.AllReduce()

    def construct(self, x):
        return self.add(x)

total = Sum()(Tensor(np.array([get_rank() + 1.0], np.float32)))
print("sum", float(total.asnumpy()[0]), "of", get_group_size(), flush=True)
"""

Outcome = tuple[dict[str, Any], list[str], str]


@pytest.fixture
def run(version: str, muster: Muster, programs: Callable[[str], str], write_job: WriteJob) -> Callable[..., Outcome]:
    """Runs a script: how the run stands at its end, the last word of each rank, and what `run` showed."""

    def call(script: str, devices: int, env: dict[str, str]) -> Outcome:
        fields = {"framework": "mindspore", "python": programs(version) + "/python", "boot": "train.py", "env": env}
        done = muster("run", write_job({**fields, "devices": devices}, **{"train.py": script}), "--json", timeout=280)
        view = json.loads(done.stdout)
        logs = sorted(Path(view["dir"]).glob("attempts/1/nodes/0/logs/rank-*.log"))
        words = [line for log in logs for line in log.read_text().splitlines() if line.startswith(("trained", "sum"))]
        return view, words, done.stderr

    return call


def test_a_script_that_never_joins_outlives_the_patience_of_a_scheduler(run: Callable[..., Outcome]) -> None:
    view, words, _ = run(ALONE, 1, {"MS_TOPO_TIMEOUT": str(TOPOLOGY_LIMIT)})
    assert view["state"] == "succeeded", view["reason"]
    assert words == ["trained 2.0"]


def test_ranks_that_join_late_add_up_what_they_have(run: Callable[..., Outcome]) -> None:
    view, words, shown = run(LATE, 2, {})
    assert view["state"] == "succeeded", view["reason"]
    assert words == ["sum 3.0 of 2"] * 2
    assert "[scheduler]" not in shown

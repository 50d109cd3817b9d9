"""A training with PyTorch that is preempted goes on from its checkpoint, and ends at the weight of one that was not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from preempted import FOR_ANN, start, until_preempted, written
from test_framework_examples import programs as programs

from conftest import WriteJob, until
from muster.launch.preemption import continue_run

pytestmark = pytest.mark.timeout(300)

STEPS = 60
TRAIN = f"""
import os, signal, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

path = os.environ["MUSTER_SHARED"] + "/checkpoint.pt"
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
print("begins at", step, flush=True)
while step < {STEPS}:
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + rank))
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
    step += 1
    print("step", step, flush=True)
    time.sleep(0.1 if os.environ["SLOW"] == "1" and os.environ["MUSTER_ATTEMPT"] == "1" else 0)
    leave = torch.tensor([float(bool(asked))])
    dist.all_reduce(leave)  # all ranks leave after the same step
    if leave.item():
        if rank == 0:
            torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}}, path)
        dist.barrier()
        print("saved at", step, flush=True)
        os._exit(1)
print("weights", [round(float(number), 6) for number in model.module.weight.flatten()], flush=True)
os._exit(0)
"""


def weights(log: str) -> str:
    return str(re.findall(r"weights (.*)", log)[0])


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_a_preempted_training_reaches_the_weights_of_one_that_was_not(
    engine: str, programs: Callable[[str], str], write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{programs('pytorch')}:{os.environ['PATH']}")
    fields = {"framework": "pytorch", "nodes": 2, "python": "python", "grace": "30s", "preemptible": True}
    plain = start(write_job({**fields, "env": {"SLOW": "0"}}, **{"train.py": TRAIN}))
    assert plain.wait() == "succeeded", plain.view.reason
    run = start(write_job({**fields, "env": {"SLOW": "1"}}, **{"train.py": TRAIN}))
    until(lambda: "step 5\n" in written(run, 1), 120)
    run.preempt(FOR_ANN)
    until_preempted(run)
    saved = re.findall(r"saved at (\d+)", written(run, 1))
    assert saved and Path(run.dir.shared, "checkpoint.pt").exists()
    assert continue_run(run.dir)
    assert run.wait() == "succeeded", run.view.reason
    for rank in (0, 1):
        assert f"begins at {saved[0]}\n" in written(run, 2, rank)
        assert weights(written(run, 2, rank)) == weights(written(plain, 1, rank))

"""A training with PyTorch that is preempted in a pool goes on from its checkpoint, to the weights of one that was not."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from run_client import RunClient, run_client
from test_framework_examples import programs as programs

import stream_hosts
from conftest import until
from muster_server import MusterServer, server_folder

pytestmark = pytest.mark.timeout(300)

SETTINGS = 'trusted = true\nminimum_runtime = "0s"\npaths = ["/"]\n'

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
    if os.environ["SLOW"] == "1" and os.environ["MUSTER_ATTEMPT"] == "1":
        time.sleep(0.1 if step < {STEPS} / 2 else 1)  # the end is far, also where the queue is slow
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


@contextmanager
def lab(engine: str, home: Path) -> Iterator[RunClient]:
    """A server whose one pool has room for two ranks: on its own machine, or on two hosts."""
    server = MusterServer(server_folder(), [])
    server.data.mkdir(mode=0o700)
    pool = f"[pools.lab]\n{SETTINGS}cpu = 2\n"
    if engine == "ssh":
        hosts = stream_hosts.group(home).replace("h[1-8]", "h[1-2]")
        pool = f'{hosts}[pools.lab]\n{SETTINGS}cpu = 1\nengine = "ssh"\nhosts = "test"\n'
    (server.data / "config.toml").write_text(pool)
    try:
        server.start()
        with run_client(server, server.make_administrator()) as client:
            yield client
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_a_preempted_training_reaches_the_weights_of_one_that_was_not(
    engine: str, programs: Callable[[str], str], home: Path
) -> None:
    fields: dict[str, Any] = {"device": "cpu", "nodes": 2, "grace": "30s"}
    training = {**fields, "boot": "train.py", "framework": "pytorch", "python": f"{programs('pytorch')}/python"}
    with lab(engine, home) as client:
        code = client.send_code(train__py=TRAIN)
        plain = client.submit(json.dumps({**training, "env": {"SLOW": "0"}}), code=code)
        ended = client.wait(plain)
        assert ended["state"] == "succeeded", ended["reason"]
        run = client.submit(json.dumps({**training, "env": {"SLOW": "1"}, "preemptible": True}), code=code)
        until(lambda: client.get(run)["state"] == "running" and "step 5\n" in client.log(run, node=0), 120)
        urgent = client.submit(json.dumps({**fields, "command": "true"}))
        assert client.wait(urgent)["state"] == "succeeded"
        ended = client.wait(run)
        assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended["reason"]
        for rank in (0, 1):
            name = f"rank-{rank}"
            [saved] = re.findall(r"saved at (\d+)", client.log(run, name, node=rank, attempt=1))
            log = client.log(run, name, node=rank, attempt=2)
            assert f"begins at {saved}\n" in log
            assert weights(log) == weights(client.log(plain, name, node=rank))

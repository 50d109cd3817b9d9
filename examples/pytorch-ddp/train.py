"""One weight trained by PyTorch DDP: each rank pulls it towards a target of its own, and the average decides."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 10
RATE = 0.25  # halves the way to the target in each step


def target(rank: int) -> float:
    return float((rank + 1) ** 2)


def reached(goal: float) -> float:
    """The weight after all steps from 0 towards one goal."""
    return goal * (1 - 0.5**STEPS)


def train(rank: int) -> float:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    inputs, targets = torch.ones(8, 1), torch.full((8, 1), target(rank))
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()  # DDP averages the gradients here
        optimizer.step()
    return layer.weight.item()


def main() -> int:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    weight = train(rank)
    expected, alone = reached(sum(map(target, range(size))) / size), reached(target(rank))
    print(f"rank {rank} of {size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    dist.destroy_process_group()
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of PyTorch may still want Python while it is taken down, and abort the rank

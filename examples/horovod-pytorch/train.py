"""One weight trained by Horovod on PyTorch: each rank pulls it towards a target of its own, and the average decides."""

import sys

import horovod.torch as hvd
import torch

STEPS = 10
RATE = 0.25  # halves the way to the target in each step


def target(rank: int) -> float:
    return float((rank + 1) ** 2)


def reached(goal: float) -> float:
    """The weight after all steps from 0 towards one goal."""
    return goal * (1 - 0.5**STEPS)


def train(rank: int) -> float:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(layer.weight, rank)  # the broadcast puts all of them where rank 0 is, at 0
    hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=RATE)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=layer.named_parameters())
    inputs, targets = torch.ones(8, 1), torch.full((8, 1), target(rank))
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(inputs), targets).backward()
        optimizer.step()  # Horovod averages the gradients here
    return layer.weight.item()


def main() -> int:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    weight = train(rank)
    expected, alone = reached(sum(map(target, range(size))) / size), reached(target(rank))
    print(f"rank {rank} of {size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    sys.exit(main())

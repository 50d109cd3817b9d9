"""One weight trained by Paddle's DataParallel: each rank pulls it towards a target of its own, and the average decides."""

import sys

import paddle
import paddle.distributed as dist

STEPS = 10
RATE = 0.25  # halves the way to the target in each step


def target(rank: int) -> float:
    return float((rank + 1) ** 2)


def reached(goal: float) -> float:
    """The weight after all steps from 0 towards one goal."""
    return goal * (1 - 0.5**STEPS)


def train(rank: int) -> float:
    layer = paddle.nn.Linear(1, 1, weight_attr=paddle.nn.initializer.Constant(0.0), bias_attr=False)
    model = paddle.DataParallel(layer)
    optimizer = paddle.optimizer.SGD(learning_rate=RATE, parameters=model.parameters())
    inputs, targets = paddle.ones([8, 1]), paddle.full([8, 1], target(rank))
    for _ in range(STEPS):
        paddle.nn.functional.mse_loss(model(inputs), targets).backward()  # DataParallel averages the gradients here
        optimizer.step()
        optimizer.clear_grad()
    return layer.weight.item()


def main() -> int:
    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    weight = train(rank)
    expected, alone = reached(sum(map(target, range(size))) / size), reached(target(rank))
    print(f"rank {rank} of {size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    sys.exit(main())

"""One weight trained over MPI: each rank pulls it towards a target of its own, and an all-reduce averages the gradients."""

import sys

import numpy as np
from mpi4py import MPI

STEPS = 10
RATE = 0.25  # halves the way to the target in each step


def target(rank: int) -> float:
    return float((rank + 1) ** 2)


def reached(goal: float) -> float:
    """The weight after all steps from 0 towards one goal."""
    return goal * (1 - 0.5**STEPS)


def train(comm: MPI.Comm) -> float:
    weight = np.zeros(1)
    average = np.empty_like(weight)
    for _ in range(STEPS):
        gradient = 2 * (weight - target(comm.rank))  # of the squared distance
        comm.Allreduce(gradient, average, op=MPI.SUM)
        weight -= RATE * average / comm.size
    return float(weight[0])


def main() -> int:
    comm = MPI.COMM_WORLD
    weight = train(comm)
    expected, alone = reached(sum(map(target, range(comm.size))) / comm.size), reached(target(comm.rank))
    print(f"rank {comm.rank} of {comm.size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    sys.exit(main())

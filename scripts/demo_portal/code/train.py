"""A stand-in for training: each rank records loss and throughput. It sleeps where a training computes."""

import argparse
import os
import random
import sys
import time
from pathlib import Path

from muster import record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=0.04, help="of a step")
    parser.add_argument("--learning_rate", type=float, default=0.05)
    parser.add_argument("--fail_at", type=int, default=0, help="the step at which the last rank finds no data")
    parser.add_argument("--first_attempt_only", type=int, default=0, help="1: a later attempt does not fail")
    parser.add_argument("--slow_rank", type=int, default=-1, help="a rank that takes twice as long")
    given = parser.parse_args()
    rank, size = int(os.environ["MUSTER_RANK"]), int(os.environ["MUSTER_WORLD_SIZE"])
    failing = given.fail_at and rank == size - 1 and not (given.first_attempt_only and os.environ["MUSTER_ATTEMPT"] != "1")
    noise = random.Random(rank)
    pause = given.seconds * (2 if rank == given.slow_rank else 1)
    print(f"rank {rank} of {size}: learning rate {given.learning_rate}", flush=True)
    timer = record.timer(samples_per_step=64)
    timer.start()
    for step in range(1, given.steps + 1):
        time.sleep(pause * noise.uniform(0.8, 1.2))
        loss = 2.3 / (1 + given.learning_rate * step) + noise.uniform(0, 0.05)
        timer.step()
        record.metric("loss", loss, step=step)
        if failing and step == given.fail_at:
            print("\033[33mwarning: the data of this rank ends early\033[0m", flush=True)
            sys.exit(f"ValueError: no samples in part-{rank:05d} after step {step}")
        if step % 10 == 0:
            print(f"step {step:5d}  \033[32mloss {loss:.4f}\033[0m", flush=True)
    timer.done()
    if rank == 0:
        record.metric("accuracy", 1 - loss / 4)
        Path(os.environ["MUSTER_SHARED"], "model.txt").write_text(f"a model after {given.steps} steps, loss {loss:.4f}\n")


main()

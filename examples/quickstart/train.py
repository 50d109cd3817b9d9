"""Trains a digit classifier with data parallelism: each rank takes its share of every batch, gradients are averaged.

What a rank knows of the job comes from the MUSTER_ variables; without them this is a job of one rank.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from allreduce import Group, GroupError, join_group
from perceptron import Floats, Labels, draw_parameters, measure_accuracy, view_layers, write_gradient

DATA = Path(__file__).with_name("digits.npz")
TEST_IMAGES = 360
SPLIT_SEED = 0


class Place(NamedTuple):
    """Where this process stands in the job."""

    rank: int
    world_size: int
    node: str
    master_addr: str
    master_port: int
    results: Path | None


class Options(argparse.Namespace):
    epochs: int
    batch: int
    hidden: int
    rate: float
    momentum: float
    seed: int


class Digits(NamedTuple):
    images: Floats
    labels: Labels
    test_images: Floats
    test_labels: Labels


class Outcome(NamedTuple):
    accuracy: float
    samples_per_second: float


def main() -> None:
    options = read_options()
    place = read_place()
    try:
        with closing(join_group(place.rank, place.world_size, place.master_addr, place.master_port)) as group:
            say(f"rank {place.rank} of {place.world_size} on node {place.node} ready")
            outcome = train(options, group, load_digits())
    except GroupError as error:
        sys.exit(f"rank {place.rank} of {place.world_size} on node {place.node} stops: {error}")
    if place.results is not None:
        write_results(place.results, place.rank, outcome)


def read_options() -> Options:
    parser = argparse.ArgumentParser(description="Train a digit classifier with data parallelism.")
    parser.add_argument("--epochs", type=positive_integer, default=12)
    parser.add_argument("--batch", type=positive_integer, default=64, help="images per step, over all ranks together")
    parser.add_argument("--hidden", type=positive_integer, default=128, help="units in the hidden layer")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(namespace=Options())


def positive_integer(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def read_place() -> Place:
    results = os.environ.get("MUSTER_RESULTS")
    return Place(
        rank=int(os.environ.get("MUSTER_RANK", "0")),
        world_size=int(os.environ.get("MUSTER_WORLD_SIZE", "1")),
        node=os.environ.get("MUSTER_NODE", "0"),
        master_addr=os.environ.get("MUSTER_MASTER_ADDR", "127.0.0.1"),
        master_port=int(os.environ.get("MUSTER_MASTER_PORT", "29500")),
        results=Path(results) if results else None,
    )


def load_digits() -> Digits:
    with np.load(DATA) as data:
        images, labels = data["images"] / 16.0, data["labels"]
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    test, training = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return Digits(images[training], labels[training], images[test], labels[test])


def train(options: Options, group: Group, digits: Digits) -> Outcome:
    # All ranks draw the same numbers, so they start with equal weights and cut the same batches without a message.
    generator = np.random.default_rng(options.seed)
    parameters = draw_parameters(options.hidden, generator)
    layers = view_layers(parameters, options.hidden)
    velocity = np.zeros_like(parameters)
    totals = np.empty(len(parameters) + 1)  # the gradient and, last, the loss: one message for both
    gradient = view_layers(totals[:-1], options.hidden)

    accuracy = 0.0
    own_samples = 0
    start = perf_counter()
    for epoch in range(1, options.epochs + 1):
        epoch_start = perf_counter()
        epoch_loss = 0.0
        order = generator.permutation(len(digits.labels))
        for first in range(0, len(order), options.batch):
            batch = order[first : first + options.batch]
            own = batch[group.rank :: group.size]
            totals[-1] = write_gradient(gradient, layers, digits.images[own], digits.labels[own])
            group.sum_over_ranks(totals)
            velocity = options.momentum * velocity + totals[:-1] / len(batch)
            parameters -= options.rate * velocity
            epoch_loss += totals[-1]
            own_samples += len(own)
        speed = len(order) / (perf_counter() - epoch_start)
        if group.rank == 0:
            accuracy = measure_accuracy(layers, digits.test_images, digits.test_labels)
            report_epoch(epoch, options.epochs, epoch_loss / len(order), accuracy, speed)
    return Outcome(accuracy, own_samples / (perf_counter() - start))


def report_epoch(epoch: int, epochs: int, loss: float, accuracy: float, speed: float) -> None:
    say(f"epoch {epoch:>2}/{epochs}  loss {loss:.4f}  accuracy {accuracy:.4f}  {speed:,.0f} samples/s")


def say(line: str) -> None:
    """Print text and line end in one write, so that the lines of several ranks do not run into each other."""
    print(line + "\n", end="", flush=True)


def write_results(results: Path, rank: int, outcome: Outcome) -> None:
    write_number(results / f"throughput_{rank}.json", round(outcome.samples_per_second, 1))
    if rank == 0:
        write_number(results / "accuracy.json", round(outcome.accuracy, 4))


def write_number(path: Path, number: float) -> None:
    """Write under another name first, so that nobody reads half a file."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(number) + "\n")
    unfinished.replace(path)


if __name__ == "__main__":
    main()

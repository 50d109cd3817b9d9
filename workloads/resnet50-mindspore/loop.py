"""The loop: steps, timer, losses, evaluations, checkpoints, and an orderly end when somebody asks for one.

One call of the network is one step; where the device takes its batches from a queue, as on Ascend, a call is `sink` steps.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops

import snapshots
from common import places, schedule
from common.labels import Common, Wrong
from common.order import Order
from common.records import record
from gang import Gang
from pictures import Evaluation, Pictures, Training

STOPPED = 128 + signal.SIGTERM
UNITS = {"throughput": "samples/s", "input_wait": "1"}


class Correct(nn.Cell):
    """How many images of a batch a network names rightly."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        return ops.equal(ops.argmax(self.network(images), 1).astype(ms.int32), labels).astype(ms.float32).sum()


class Careful:
    """Batches by number, in which what the user can put right is noted: MindSpore forgets it."""

    def __init__(self, source: Any, wrongs: list[Wrong]) -> None:
        self.source, self.wrongs = source, wrongs

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.source[index]
        except Wrong as wrong:
            self.wrongs.append(wrong)
            raise


class Stop:
    """SIGTERM, noted until the ranks look at it together."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.asked = True


@dataclass
class Loop:
    """Everything that training needs."""

    gang: Gang
    settings: Common
    network: nn.Cell
    step: nn.Cell  # the network with its loss and optimizer
    order: Order
    images: tuple[Pictures, Pictures | None]  # to train on and to evaluate
    steps: int
    sink: int  # the most steps that one call may take from the device's queue; 0: the host feeds each step

    def __post_init__(self) -> None:
        self._correct = Correct(self.network)  # one for all evaluations, so that it is compiled once
        self._wrongs: list[Wrong] = []
        self._measured: dict[str, float] = {}  # by this attempt or, where it has timed no step, by the one before
        self._timed = False  # whether it is this attempt's

    def run(self) -> int:
        """Trains to the end, or until somebody asks for it, and returns the exit code."""
        try:
            return self._run()
        except RuntimeError:  # which MindSpore makes of whatever its sources raise
            if self._wrongs:
                raise self._wrongs[0] from None
            raise

    def _run(self) -> int:
        if self._keeps and self.gang.first:
            places.prepare(self.settings)
        first = self._resume()
        stopped = self._steps(first) if first < self.steps else 0
        self._tell()
        if stopped:
            self._save(stopped)
            self.gang.say(f"stopped after step {stopped:,}; a checkpoint is saved")
            return STOPPED
        if first < self.steps and self._keeps:
            self._save(self.steps)  # before the evaluation, in which somebody may lose patience
        self._evaluate(self.steps)
        return 0

    def _steps(self, first: int) -> int:
        """All steps after the first ones; returns the last one that was done where somebody asked to stop, else 0."""
        settings, steps = self.settings, self.steps
        evaluations = schedule.interval(settings.eval_steps, settings.eval_interval, self.order.steps)
        sink = math.gcd(self.sink or 1, math.gcd(steps - first, math.gcd(evaluations, self._saves)))
        looks = settings.log_steps or self.order.steps
        network, feed, close = self._feed(first, sink)
        timer = self._timer(sink)
        stop, waited = Stop(), 0.0
        for done in range(first + sink, steps + 1, sink):
            started = time.perf_counter()
            batch = next(feed)
            waited += time.perf_counter() - started if timer.steps >= max(1, timer.warmup) else 0.0
            loss = network(*batch)
            evaluating, saving = _due(done, evaluations) and done < steps, _due(done, self._saves) and done < steps
            stopping = _due(done, looks, sink) and self._look(done, loss, stop)
            warm = timer.steps + 1 == max(1, timer.warmup)
            if evaluating or saving or stopping or warm or done == steps:
                loss.asnumpy()  # the device is behind; a step ends when its work is done
            timer.step()
            self._measure(timer, waited)
            if stopping and done < steps:
                break
            if saving:
                self._save(done)
            if evaluating:
                self._evaluate(done)
            if evaluating or saving:
                timer.start()
        close()
        if self._timed or not self._measured:
            timer.done()  # which tells the throughput, or that there is none
        return done if done < steps else 0

    def _feed(self, first: int, sink: int) -> tuple[nn.Cell, Iterator[Any], Callable[[], None]]:
        """The network to call, what to call it with, once for each call, and what ends the feed."""
        dataset = self._dataset(Training(self.images[0], self.order, first, self.steps - first))
        if not self.sink:
            return self.step, _batches(dataset), lambda: None
        helper = ms.DatasetHelper(dataset, True, sink)
        return ms.connect_network_with_dataset(self.step, helper), _endless(helper), helper.stop_send

    def _dataset(self, source: Any) -> ds.Dataset:
        # One worker: more of them would handle SIGTERM in their own way, or, as processes, die of the one that a group gets.
        return ds.GeneratorDataset(Careful(source, self._wrongs), ["images", "labels"], shuffle=False, num_parallel_workers=1)

    def _look(self, done: int, loss: ms.Tensor, stop: Stop) -> bool:
        """Tells the mean loss of all ranks, and returns whether any of them was asked to stop."""
        total, asked = self.gang.sum([float(loss.asnumpy()), float(stop.asked)])
        mean = float(total) / self.gang.size
        self.gang.say(f"step {done:,}: loss {mean:.4f}")
        if self.gang.first and math.isfinite(mean):
            record.metric("loss", mean, step=done)
        return bool(asked)

    def _timer(self, sink: int) -> Any:
        untimed = schedule.untimed(self.settings, self.steps // sink)
        return record.timer(self.order.batch * self.order.passes * sink, untimed)

    def _measure(self, timer: Any, waited: float) -> None:
        """Notes throughput and, where the host feeds the device, the share of the time in which it had nothing to feed."""
        if timer.seconds:
            waiting = {} if self.sink else {"input_wait": min(1.0, waited / timer.seconds)}
            self._measured, self._timed = {"throughput": timer.samples / timer.seconds, **waiting}, True

    def _tell(self) -> None:
        """Records what was measured; a throughput of this attempt stands there already, and more exactly."""
        for name, value in self._measured.items():
            if name != "throughput" or not self._timed:
                record.metric(name, value, UNITS[name])
        if self._measured:
            waiting = f", waited for input {self._measured['input_wait']:.1%}" if "input_wait" in self._measured else ""
            self.gang.say(f"{self._measured['throughput'] * self.gang.size:,.1f} samples/s{waiting}")

    def _evaluate(self, done: int) -> None:
        """Records the share of all images that the network names rightly, each image counted by one rank."""
        images = self.images[1]
        if images is None:
            return
        self.gang.average(self._statistics())
        started = time.perf_counter()
        source = Evaluation(images, self.order.batch, self.gang.rank, self.gang.size)
        self._correct.set_train(False)
        found = [self._correct(*batch).asnumpy() for batch in _batches(self._dataset(source))] if len(source) else []
        self.network.set_train()
        accuracy = float(self.gang.sum([np.sum(found)])[0]) / len(images.labels)
        self.gang.say(f"step {done:,}: accuracy {accuracy:.4f} ({time.perf_counter() - started:.1f} s)")
        if self.gang.first:
            record.metric("accuracy", accuracy, step=done)

    @property
    def _saves(self) -> int:
        """Steps between two checkpoints; 0 for none."""
        settings = self.settings
        every = schedule.interval(settings.save_checkpoint_steps, settings.save_checkpoint_epochs, self.order.steps)
        return every if settings.save_checkpoint else 0

    @property
    def _keeps(self) -> bool:
        """Whether the last weights are kept."""
        return bool(self._saves or (self.settings.save_checkpoint and self.settings.train_url))

    def _save(self, done: int) -> None:
        self.gang.average(self._statistics())
        measured = self.gang.gathered(self._measured)
        if self.gang.first:
            folder = places.checkpoints(self.settings)
            saved, gone = snapshots.save(folder, done, self.step, self.settings.save_checkpoint_num, measured)
            places.publish(self.settings, saved, gone, last=done == self.steps)
        self.gang.sum([0])

    def _resume(self) -> int:
        """Takes up the newest checkpoint of this run and returns its step; 0 where there is none."""
        folder = places.checkpoints(self.settings)
        step = int(self.gang.sum([snapshots.newest(folder) if self.gang.first else 0])[0])
        if step > self.steps:
            raise places.too_late(snapshots.of_step(folder, step), step, self.steps)
        if step:
            measured = snapshots.load(folder, step, self.step)
            self._measured = measured[self.gang.rank] if len(measured) == self.gang.size else {}
            self.gang.say(f"goes on after step {step:,} of {folder}")
        if step == self.steps and self.gang.first:  # the last one of an attempt that was killed thereafter
            places.publish(self.settings, snapshots.of_step(folder, step), [], last=True)
        return step

    def _statistics(self) -> list[ms.Parameter]:
        """The running means and variances of the norms, which every rank gathers for itself."""
        return [parameter for parameter in self.network.get_parameters() if not parameter.requires_grad]


def _batches(dataset: ds.Dataset) -> Iterator[Any]:
    yield from dataset.create_tuple_iterator(num_epochs=1)


def _endless(helper: ms.DatasetHelper) -> Iterator[Any]:
    """A helper of the device's queue yields nothing at all, once in each iteration."""
    while True:
        yield from helper


def _due(done: int, every: int, calls: int = 1) -> bool:
    """Whether something that happens every so many steps falls into the last `calls` of them."""
    return bool(every) and done % every < calls

"""The loop: steps, timer, losses, evaluations, checkpoints, and an orderly end when somebody asks for one.

A workload brings its model, its batches, its step and its evaluation.
"""

from __future__ import annotations

import collections
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from common import checkpoints, places, schedule
from common.feeding import Batch
from common.labels import Common
from common.optimizers import Optimizer
from common.records import record
from common.stepping import Stepper
from common.stopping import EXIT_CODE, Stop
from common.world import World, accelerator

AHEAD = 2  # steps that the host may be ahead of the device


@dataclass
class Training:
    """Everything that the loop needs of a workload."""

    world: World
    settings: Common
    model: nn.Module  # as it is saved
    optimizer: Optimizer
    step: Stepper
    rate: Callable[[int], float]  # the learning rate of a step
    batches: Callable[[int], Iterator[Batch]]  # those of every pass from a step on
    steps: int
    epoch: int  # steps of one epoch
    evaluate: Callable[[], dict[str, float]] | None = None  # called by all ranks; the same numbers on all

    def run(self) -> int:
        """Trains to the end, or until somebody asks for it, and returns the exit code."""
        if self._saves or self._keeps:
            self.world.agree(lambda: places.prepare(self.settings) if self.world.first else None)
        first, before = self._resume()
        if self.world.first:
            record.metric("seed", self.settings.seed)
        clock = Clock(self.world, self._timer(), before)
        if first == self.steps:
            clock.done()
            self.world.agree(self._publish_again)
        else:
            source = self.batches(first)
            try:
                stopped = self._steps(first, source, clock)
            finally:
                getattr(source, "close", int)()
            if stopped:
                self._save(stopped, clock)
                self._say(f"stopped after step {stopped:,}; a checkpoint is saved")
                return EXIT_CODE
            if (self._saves or self._keeps) and not _due(self.steps, self._saves):
                self._save(self.steps, clock)  # before the evaluation, in which somebody may lose patience
        self._evaluate(self.steps)
        return 0

    def _steps(self, first: int, source: Iterator[Batch], clock: Clock) -> int:
        """All steps after the first ones; returns the last one that was done where somebody asked to stop, else 0."""
        stop, last = Stop(self.world), self.steps
        evaluations = schedule.interval(self.settings.eval_steps, self.settings.eval_interval, self.epoch)
        for done in range(first + 1, last + 1):
            batches = clock.waiting(lambda: list(itertools.islice(source, self.step.passes)))
            self.optimizer.rate.fill_(self.rate(done - 1))
            loss = self.step(batches)
            evaluating, saving = _due(done, evaluations) and done < last, _due(done, self._saves)
            stopping = stop.agreed() and done < last
            pausing = evaluating or saving or stopping or done == last
            clock.step(done, loss if _due(done, self.settings.log_steps) else None, pausing)
            if stopping:
                clock.done()
                return done
            if saving:
                self._save(done, clock)
            if evaluating:
                self._evaluate(done)
            if pausing:
                clock.go_on()
        stop.settle()
        clock.done()
        return 0

    @property
    def _saves(self) -> int:
        """Steps between two checkpoints; 0 for none."""
        settings = self.settings
        every = schedule.interval(settings.save_checkpoint_steps, settings.save_checkpoint_epochs, self.epoch)
        return every if settings.save_checkpoint else 0

    @property
    def _keeps(self) -> bool:
        """Whether the last weights are asked for."""
        return self.settings.save_checkpoint and bool(self.settings.train_url)

    @property
    def _folder(self) -> Path:
        return places.checkpoints(self.settings)

    def _timer(self) -> Any:
        untimed = schedule.untimed(self.settings, self.steps)
        return record.timer(self.settings.batch_size * self.step.passes, untimed)

    def _settle(self) -> None:
        """Statistics that every rank keeps of its own samples become those of all."""
        self.world.average(buffer for name, buffer in self.model.named_buffers() if "running_" in name)

    def _evaluate(self, done: int) -> None:
        if self.evaluate is None:
            return
        self._settle()
        started = time.perf_counter()
        self.model.eval()
        numbers = self.evaluate()
        self.model.train()
        if self.world.first:
            for name, value in numbers.items():
                _tell(name, value, done)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in numbers.items())
        self._say(f"step {done:,}: {shown} ({time.perf_counter() - started:.1f} s)")

    def _save(self, done: int, clock: Clock) -> None:
        self._settle()
        ranks = self.world.gathered({"generators": _generators(self.world), "metrics": clock.metrics()})
        self.world.agree(lambda: self._write(done, ranks) if self.world.first else None)

    def _write(self, done: int, ranks: Any) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "ranks": ranks}
        saved, gone = checkpoints.save(self._folder, done, state, self.settings.save_checkpoint_num)
        places.publish(self.settings, saved, gone, last=done == self.steps)

    def _publish_again(self) -> None:
        """The last checkpoint of an attempt that was killed thereafter, for train_url may be another place in this one."""
        if self.world.first and (newest := checkpoints.newest(self._folder)):
            places.publish(self.settings, newest, [], last=True)

    def _resume(self) -> tuple[int, dict[str, float]]:
        """Takes up the newest checkpoint of this run; returns its step and what was measured up to it."""
        path = self.world.told(checkpoints.newest(self._folder) if self.world.first else None)
        if path is None:
            return 0, {}
        state = checkpoints.load(path)
        step = int(state["step"])
        if step > self.steps:
            raise places.too_late(path, step, self.steps)
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError):
            raise places.foreign(path) from None
        self._say(f"goes on after step {step:,} of {path}")
        if len(state["ranks"]) != self.world.size:
            return step, {}
        own = state["ranks"][self.world.rank]
        _set_generators(self.world, own["generators"])
        return step, own["metrics"]

    def _say(self, text: str) -> None:
        if self.world.first:
            print(text, flush=True)


@dataclass(frozen=True)
class Flight:
    """A step that the device was given: its number, the events of its begin and end, and its loss where that is told."""

    done: int
    waited: float  # seconds that the host waited for its input
    begun: Any
    ended: Any
    loss: Tensor | None


class Clock:
    """Tells the timer when steps end, without holding up the device: it only waits for a step that lies `AHEAD` behind.

    Losses are copied to the host by the device and read when their step is over. A device has waited for input when it had
    nothing to do between two steps; the host, which runs ahead, may wait for long without any harm.
    """

    def __init__(self, world: World, timer: Any, before: dict[str, float]) -> None:
        self.world, self.timer, self.before = world, timer, before
        self._waited = 0.0
        self._host_waited = 0.0
        self._begun: Any = None
        self._last: Any = None  # when the device was done with the step before, or with a pause
        self._flying: collections.deque[Flight] = collections.deque()

    def waiting(self, fetch: Callable[[], list[Batch]]) -> list[Batch]:
        """Fetches the batches of a step, which then begins."""
        started = time.perf_counter()
        batches = fetch()
        self._host_waited = time.perf_counter() - started
        self._begun = self._mark()
        return batches

    def step(self, done: int, loss: Tensor | None, pausing: bool) -> None:
        """Ends a step; before a pause its work is waited for."""
        if loss is not None and self.world.device.type != "cpu":
            loss = torch.empty_like(loss, device="cpu", pin_memory=True).copy_(loss, non_blocking=True)
        self._flying.append(Flight(done, self._host_waited, self._begun, self._mark(), loss))
        while self._flying and (pausing or len(self._flying) > AHEAD or _over(self._flying[0])):
            self._land(self._flying.popleft())

    def go_on(self) -> None:
        """A pause is over."""
        self._last = self._mark()
        self.timer.start()

    def _mark(self) -> Any:
        """An event behind all that the device has been given; none on CPUs."""
        if self.world.device.type == "cpu":
            return None
        event = accelerator(self.world.device).Event(enable_timing=True)
        event.record()
        return event

    def metrics(self) -> dict[str, float]:
        """Throughput, and the share of the time in which the training waited for its input.

        Where this attempt has timed no step, because hardly one was left to it, they are those of the attempt before.
        """
        samples, seconds = self.timer.samples, self.timer.seconds
        if not seconds:
            return self.before
        return {"throughput": samples / seconds, "input_wait": min(1.0, self._waited / seconds)}

    def done(self) -> None:
        """Records what was measured."""
        measured = self.metrics()
        if self.timer.seconds or not measured:
            self.timer.done()  # which tells the throughput, or that there is none
        else:
            record.metric("throughput", measured["throughput"], "samples/s")
        if measured:
            rate, waited = measured["throughput"], measured["input_wait"]
            record.metric("input_wait", waited, "1")
            if self.world.first:
                print(f"{rate * self.world.size:,.1f} samples/s, waited for input {waited:.1%} of the time", flush=True)

    def _land(self, flight: Flight) -> None:
        if flight.ended is not None:
            flight.ended.synchronize()
        if self.timer.steps >= max(1, self.timer.warmup):  # the timer counts this one
            self._waited += self._last.elapsed_time(flight.begun) / 1000 if flight.ended is not None else flight.waited
        self._last = flight.ended
        self.timer.step()
        if flight.loss is not None and self.world.first:
            _tell("loss", float(flight.loss), flight.done)
            print(f"step {flight.done:,}: loss {float(flight.loss):.4f}", flush=True)


def _over(flight: Flight) -> bool:
    return flight.ended is None or bool(flight.ended.query())


def _tell(name: str, value: float, step: int) -> None:
    """Records a number, unless it is none: a training that has come to nothing is seen by its accuracy."""
    if math.isfinite(value):
        record.metric(name, value, step=step)


def _due(done: int, every: int) -> bool:
    return bool(every) and done % every == 0


def _generators(world: World) -> dict[str, Tensor]:
    """The states of the random numbers that this rank draws."""
    states, kind = {"cpu": torch.get_rng_state()}, world.device.type
    if kind != "cpu":
        states[kind] = accelerator(world.device).get_rng_state(world.device)
    return states


def _set_generators(world: World, states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"].clone())
    kind = world.device.type
    if kind != "cpu" and kind in states:
        accelerator(world.device).set_rng_state(states[kind].clone(), world.device)

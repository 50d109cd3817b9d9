"""One optimizer step, as fast as the device allows: mixed precision, compiled, captured as a CUDA graph, shared by ranks."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from common.feeding import Batch
from common.labels import Common, Wrong
from common.optimizers import Optimizer
from common.world import World

Loss = Callable[..., Tensor]
MODES = ("auto", "off", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BEFORE_CAPTURE = 3  # steps that compile, tune and fill caches


@dataclass
class Speed(Common):
    """The settings of a workload that trains with a Stepper; what is fastest on the device is the default."""

    precision: str = "auto"  # bf16 (the default on accelerators) or fp32
    compile: str = "auto"  # a mode of torch.compile, or off (the default on CPUs)
    inductor: str = ""  # options of torch._inductor.config to switch on, by comma, such as coordinate_descent_tuning
    cuda_graph: bool = False  # captures the whole step, optimizer included, and replays it; for one rank


class Stepper:
    """Forward, backward and update over the passes of one step; `loss(model, *batch)` is the mean loss of a batch.

    With several ranks the gradients are averaged while they are computed. Buffers stay each rank's own.
    """

    def __init__(
        self,
        world: World,
        settings: Speed,
        model: nn.Module,
        loss: Loss,
        optimizer: Optimizer,
        passes: int = 1,
        clip: float = 0.0,
    ) -> None:
        prepare(world)
        self.world, self.optimizer, self.passes, self.clip = world, optimizer, passes, clip
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._shared = _shared(world, model)
        self._forward = _forward(world, settings, self._shared or model, loss, passes)
        if _mode(world, settings):
            optimizer.compile()
        self._captured = Captured(self._work) if settings.cuda_graph and world.device.type == "cuda" else None
        if self._captured and world.size > 1:
            raise Wrong("A step of several ranks is not captured. Leave cuda_graph out, or train with one rank.")

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        """Trains on the batches of all passes and returns the loss on the device, still to be computed."""
        return self._captured(batches) if self._captured else self._work(batches)

    def _work(self, batches: Sequence[Batch]) -> Tensor:
        self.optimizer.zero_grad()
        losses: list[Tensor] = []
        for number, batch in enumerate(batches, 1):
            with self._alone(number):
                loss = self._forward(*batch)
                loss.backward()
            losses.append(loss.detach())
        if self.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _alone(self, number: int) -> contextlib.AbstractContextManager[Any]:
        """Ranks exchange their gradients in the last pass alone."""
        return self._shared.no_sync() if self._shared and number < self.passes else contextlib.nullcontext()


class Captured:
    """A step that is captured once, after a few have run as they are, and then replayed from the same memory."""

    def __init__(self, work: Callable[[Sequence[Batch]], Tensor]) -> None:
        self._work = work
        self._steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[Batch] = []
        self._loss = torch.empty(0)

    def __call__(self, batches: Sequence[Batch]) -> Tensor:
        self._steps += 1
        if self._steps <= BEFORE_CAPTURE:
            return self._aside(batches)
        if self._graph is None:
            self._capture(batches)
        assert self._graph is not None
        for own, given in zip(self._inputs, batches):
            torch._foreach_copy_(list(own), list(given))
        self._graph.replay()
        return self._loss

    def _aside(self, batches: Sequence[Batch]) -> Tensor:
        """On a stream of its own, as a step that will be captured must have run."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._work(batches)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _capture(self, batches: Sequence[Batch]) -> None:
        self._inputs = [tuple(tensor.clone() for tensor in batch) for batch in batches]
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):  # the feed's thread goes on meanwhile
            self._loss = self._work(self._inputs)


def prepare(world: World) -> None:
    """Lets the libraries choose the fastest kernels for shapes that stay the same."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = world.device.type == "cuda"


def mixed(world: World, settings: Speed) -> contextlib.AbstractContextManager[Any]:
    """The precision in which a model is evaluated and trained."""
    context: contextlib.AbstractContextManager[Any]
    context = torch.autocast(world.device.type, torch.bfloat16, enabled=_halved(world, settings))
    return context


def _halved(world: World, settings: Speed) -> bool:
    """Whether matrix products and convolutions are computed in bf16."""
    if settings.precision not in ("auto", "bf16", "fp32"):
        raise Wrong(f"`{settings.precision}` is no precision. Take bf16 or fp32.")
    return settings.precision == "bf16" or (settings.precision == "auto" and world.device.type != "cpu")


def _mode(world: World, settings: Speed) -> str:
    """The mode of torch.compile, empty for none."""
    if settings.compile not in MODES:
        raise Wrong(f"`{settings.compile}` is no way to compile. Take one of {', '.join(MODES)}.")
    chosen = ("default" if world.device.type == "cuda" else "off") if settings.compile == "auto" else settings.compile
    return "" if chosen == "off" else chosen


def _shared(world: World, model: nn.Module) -> DistributedDataParallel | None:
    if world.size == 1:
        return None
    devices = [world.device.index] if world.device.type != "cpu" else None
    newer = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters  # its name since PyTorch 2.13
    own_buffers = {"forward_sync_buffers" if newer else "broadcast_buffers": False}
    return DistributedDataParallel(model, devices, gradient_as_bucket_view=True, **own_buffers)


def _forward(world: World, settings: Speed, model: nn.Module, loss: Loss, passes: int) -> Loss:
    kind, halved = world.device.type, _halved(world, settings)

    def forward(*batch: Tensor) -> Tensor:
        with torch.autocast(kind, torch.bfloat16, enabled=halved):
            return loss(model, *batch) / passes

    mode = _mode(world, settings)
    if not mode:
        return forward
    _switch_on(settings.inductor)
    compiled: Loss = torch.compile(forward, mode=mode, dynamic=False)
    return compiled


def _switch_on(options: str) -> None:
    from torch._inductor import config

    for name in filter(None, options.split(",")):
        if not isinstance(getattr(config, name, None), bool):
            raise Wrong(f"torch._inductor.config has no option `{name}` to switch on. Its source lists them.")
        setattr(config, name, True)

"""ResNet-50 v1.5 in MindSpore: on Ascend with a rank table, on CPUs with the dynamic cluster, with AISBench's labels."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import cpus, labels, layouts, places, schedule, seat
from common.labels import Common, Count, Fraction, Range, Share, Wrong
from common.order import Order
from common.records import record
from servers import stand_alone

if TYPE_CHECKING:
    from mindspore import nn

    from gang import Gang
    from loop import Loop
    from pictures import Pictures

OPTIMIZERS = ("momentum", "sgd", "lars")
LEVELS = ("auto", "O0", "O1", "O2", "O3")


@dataclasses.dataclass
class Settings(Common):
    """The labels of this workload: those of `resnet50` with the names of MindSpore's model zoo, and a few of MindSpore."""

    dataset: str = "auto"  # imagenet2012, cifar10, synthetic; auto: what the data directory holds
    batch_size: Count = 256
    epoch_size: Count = 90
    class_num: int = 0  # 0: as many as the data has
    image_size: Count = 224  # of JPEG files; CIFAR-10 has 32
    depth: int = 50
    width: Count = 64
    optimizer: str = "Momentum"
    lr_max: float = 0.0  # 0: 0.1 for each 256 images of the global batch
    lr_end: float = 0.0
    lr_decay_mode: str = "cosine"
    warmup_epochs: float = 5
    momentum: Fraction = 0.9
    weight_decay: float = 5e-5  # not on norms and biases
    use_label_smooth: bool = True
    label_smooth_factor: Share = 0.1
    smallest_area: Share = 0.08  # of the part of an image that is trained on
    generate: int = 0  # makes a data set of so many images, and a quarter of that to evaluate with, where there is none
    workers: int = 0  # threads of each rank that decode; 0: one for each of its CPUs
    device_target: str = "auto"  # Ascend | CPU
    amp_level: str = "auto"  # O2 on Ascend, O0 elsewhere
    loss_scale: Annotated[float, Range(1)] = 1024  # but not at O0
    enable_data_sink: bool = True  # on Ascend
    data_sink_steps: int = 100  # the most steps in which the device does not wait for the host


def main() -> int:
    settings = labels.read(Settings, sys.argv[1:])
    if seat.alone():
        stand_alone()
    with record.phase("prepare"):  # MindSpore takes seconds to load: what is wrong with a label is told before
        from gang import join

        gang = join(settings.device_target)
    with record.phase("dataload"):
        images = opened(settings)
    order = Order.of(settings, len(images[0].labels), gang.rank, gang.size)
    code = assemble(settings, gang, order, images).run()
    if code and gang.size > 1:
        os._exit(code)  # in a run that is stopped MindSpore would wait long for the scheduler, which was stopped, too
    return code


def opened(settings: Settings) -> tuple[Pictures, Pictures | None]:
    """The images to train on and, unless they are synthetic, those to evaluate."""
    import pictures

    if settings.dataset not in layouts.DATASETS:
        raise Wrong(f"`{settings.dataset}` is no data set. Take one of {', '.join(layouts.DATASETS)}.")
    if settings.dataset == "synthetic":
        return pictures.Synthetic(settings.class_num or 1000, settings.image_size), None
    folder = made(settings) if settings.generate else places.data(settings)
    workers = settings.workers or cpus.of_rank()
    place = layouts.place(settings, settings.dataset, folder)
    return pictures.find(place, settings.class_num, settings.image_size, settings.smallest_area, workers)


def made(settings: Settings) -> Path:
    """Generated data, and a quarter of it to evaluate with."""
    try:
        from resnet50.generate import generate
    except ImportError:  # a package of AISBench holds one workload
        raise Wrong("The workload `resnet50` generates data, and is not here. Name data with --data_path.") from None
    layout = "cifar10" if settings.dataset == "cifar10" else "imagenet"
    size, classes, val = settings.image_size * 7 // 6, settings.class_num or 10, max(1, settings.generate // 4)
    return places.made(settings, lambda to: generate(to, layout, classes, settings.generate, val, size, settings.seed))


def assemble(settings: Settings, gang: Gang, order: Order, images: tuple[Pictures, Pictures | None]) -> Loop:
    """The loop over a network that was made for these images."""
    import mindspore as ms

    from loop import Loop
    from residual import ResNet

    ms.set_seed(settings.seed)
    if gang.first:
        record.metric("seed", settings.seed)
    epoch, steps = schedule.lengths(settings, order.samples, gang.size)
    classes = layouts.classes(settings.class_num, max(part.classes for part in images if part))
    network = ResNet(classes, images[0].size, settings.depth, settings.width, order.passes)
    step = stepper(settings, gang, network, rates(settings, epoch, steps, order))
    sink = settings.data_sink_steps if gang.ascend and settings.enable_data_sink else 0
    return Loop(gang, settings, network, step, order, images, steps, sink)


def rates(settings: Settings, epoch: int, steps: int, order: Order) -> list[float]:
    """The learning rate of every step."""
    peak = settings.lr_max or 0.1 * order.batch * order.passes * order.ranks / 256
    warmup, kind, end = min(round(settings.warmup_epochs * epoch), steps // 2), settings.lr_decay_mode, settings.lr_end
    return [schedule.rate(step, steps, peak, warmup, kind, end) for step in range(steps)]


def stepper(settings: Settings, gang: Gang, network: nn.Cell, rates: list[float]) -> nn.Cell:
    """A network with its loss, averaged gradients and optimizer: one call is one step."""
    import mindspore as ms
    from mindspore import nn

    if settings.optimizer.lower() not in OPTIMIZERS:
        raise Wrong(f"There is no optimizer `{settings.optimizer}` here. Take one of {', '.join(OPTIMIZERS)}.")
    if settings.optimizer.lower() == "lars" and not gang.ascend:
        raise Wrong("MindSpore has LARS on Ascend alone. Take Momentum.")
    if settings.amp_level not in LEVELS:
        raise Wrong(f"`{settings.amp_level}` is no amp_level. Take one of {', '.join(LEVELS)}.")
    level = ("O2" if gang.ascend else "O0") if settings.amp_level == "auto" else settings.amp_level
    scale = 1.0 if level == "O0" else settings.loss_scale
    decayed = [parameter for parameter in network.trainable_params() if len(parameter.shape) > 1]
    others = [parameter for parameter in network.trainable_params() if len(parameter.shape) == 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
        {"order_params": network.trainable_params()},
    ]
    optimizer = nn.Momentum(groups, rates, settings.momentum, loss_scale=scale)
    if settings.optimizer.lower() == "lars":
        optimizer = nn.LARS(optimizer, coefficient=0.001, lars_filter=lambda parameter: len(parameter.shape) > 1)
    loss = nn.CrossEntropyLoss(label_smoothing=settings.label_smooth_factor if settings.use_label_smooth else 0.0)
    manager = None if level == "O0" else ms.amp.FixedLossScaleManager(scale, drop_overflow_update=False)
    step = ms.amp.build_train_network(network, optimizer, loss, level, loss_scale_manager=manager)
    return step.set_train()


if __name__ == "__main__":
    labels.run(main)

"""Trains ResNet-50: on CPUs, one GPU or many, on ImageNet's folders, CIFAR-10's files or synthetic images."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor, nn
from torch.nn import functional

import cifar
from common import cpus, labels, layouts, places, schedule, world
from common.feeding import Batch, Feed
from common.labels import Count, Fraction, Share
from common.layouts import Place
from common.optimizers import Optimizer
from common.order import Order, shares
from common.records import record
from common.stepping import Speed, Stepper, mixed
from common.training import Training
from common.world import World
from images import Decoders, Folder, Images
from resnet import ResNet

if TYPE_CHECKING:
    from cutting import Cut

SYNTHETIC_SETS = 4
SYNTHETIC_SAMPLES = 1_281_167  # as many as ImageNet has
OPTIMIZERS = {"Momentum": "sgd", "LARS": "lars"}  # as the model zoo calls them
PARTS = 4  # times the pixels of a ready image: larger parts of images are resized by those who decode them


@dataclass
class Settings(Speed):
    """The labels of this workload; names are those of MindSpore's model zoo where it has them."""

    dataset: str = "auto"  # imagenet2012, cifar10, synthetic; auto: what the data directory holds
    synthetic: bool = False  # the same as dataset=synthetic
    batch_size: Count = 256
    epoch_size: Count = 90
    class_num: int = 0  # 0: as many as the data has
    image_size: Count = 224
    depth: int = 50
    width: Count = 64
    optimizer: str = "sgd"
    lr_max: float = 0.0  # 0: 0.1 for each 256 samples of the global batch (sgd), 2.0 (lars)
    lr_end: float = 0.0
    lr_decay_mode: str = "cosine"
    warmup_epochs: float = 5
    momentum: Fraction = 0.9
    weight_decay: float = 5e-5
    use_label_smooth: bool = True
    label_smooth_factor: Share = 0.1
    workers: int = 0  # processes that decode; 0: one for each CPU of this rank but one
    smallest_area: Share = 0.08  # of the part of an image that is trained on
    generate: int = 0  # makes a data set of so many images, and a fifth of that to evaluate with, where there is none


@dataclass(frozen=True)
class Data:
    """What there is to train on and to evaluate with."""

    samples: int
    classes: int
    image_size: int
    batches: Callable[[Order, int], Iterator[Batch]]
    validation: int = 0
    evaluation: Callable[[Iterator[Any]], Iterator[Batch]] = iter


def synthetic(settings: Settings, device: torch.device) -> Data:
    """Random images that lie on the device, a few sets in turn: what the computation alone can do."""
    classes, size = settings.class_num or 1000, settings.image_size
    shape = (settings.batch_size, size, size, 3)
    sets = [
        (torch.randint(0, 256, shape, dtype=torch.uint8, device=device), torch.randint(0, classes, shape[:1], device=device))
        for _ in range(SYNTHETIC_SETS)
    ]

    def batches(order: Order, first: int) -> Iterator[Batch]:
        while True:
            yield from sets

    return Data(max(SYNTHETIC_SAMPLES, settings.global_batch), classes, size, batches)


def from_cifar(settings: Settings, place: Place, device: torch.device) -> Data:
    wanted = settings.class_num
    train, val = cifar.Cifar(place.train, "train", device, wanted), cifar.Cifar(place.val, "val", device, wanted)
    classes = layouts.classes(wanted, max(train.classes, val.classes))
    return Data(len(train), classes, layouts.SIDE, train.batches, len(val), val.evaluation)


def from_folders(settings: Settings, place: Place, device: torch.device) -> Data:
    train = Folder(place.train)
    val = Folder(place.val, train.classes)
    size, seed, area = settings.image_size, settings.seed, settings.smallest_area
    on_gpu = device.type == "cuda"

    def decoders(most: int = 0) -> Decoders:
        return Decoders(settings.workers or max(1, cpus.of_rank() - 1), settings.batch_size, size, seed, area, on_gpu, most)

    training: Images | Cut = Images(train, decoders)
    evaluating = Images(val, decoders)
    if on_gpu:
        import cutting  # which needs Triton

        training = cutting.Cut(Images(train, lambda: decoders(PARTS * size * size)), device, size)
    return Data(
        len(train),
        layouts.classes(settings.class_num, len(train.classes)),
        size,
        lambda order, first: Feed(training.batches(order.chunks(first)), device),
        len(val),
        lambda parts: Feed(evaluating.evaluation(parts), device),
    )


def made(settings: Settings) -> Path:
    """Generated data, and a fifth of it to evaluate with."""
    from generate import generate

    layout = "cifar10" if settings.dataset == "cifar10" else "imagenet"
    size, classes, val = settings.image_size * 7 // 6, settings.class_num or 10, max(1, settings.generate // 5)
    return places.made(settings, lambda to: generate(to, layout, classes, settings.generate, val, size, settings.seed))


def opened(settings: Settings, device: torch.device) -> Data:
    """The data that the labels name."""
    if settings.dataset not in layouts.DATASETS:
        raise labels.Wrong(f"`{settings.dataset}` is no data set. Take one of {', '.join(layouts.DATASETS)}.")
    if settings.synthetic or settings.dataset == "synthetic":
        return synthetic(settings, device)
    folder = made(settings) if settings.generate else places.data(settings)
    place = layouts.place(settings, settings.dataset, folder)
    return (from_cifar if place.is_cifar else from_folders)(settings, place, device)


def evaluated(where: World, settings: Settings, model: nn.Module, data: Data) -> dict[str, float]:
    """Top-1 accuracy and loss over the whole validation set, each image counted once over all ranks."""
    sums = torch.zeros(3, dtype=torch.float64, device=where.device)
    with torch.inference_mode(), mixed(where, settings):
        for images, wanted in data.evaluation(shares(data.validation, settings.batch_size, where.rank, where.size)):
            scores = model(images).float()
            right, loss = (scores.argmax(1) == wanted).sum(), functional.cross_entropy(scores, wanted, reduction="sum")
            sums += torch.stack([right.double(), loss.double(), torch.tensor(float(len(wanted)), device=where.device).double()])
    right, loss, count = where.sum(sums.tolist())
    return {"accuracy": right / count, "eval_loss": loss / count}


def learning(settings: Settings, order: Order) -> tuple[int, int, Callable[[int], float]]:
    """Steps of an epoch, steps of all, and the learning rate of each."""
    epoch, steps = schedule.lengths(settings, order.samples, order.ranks)
    batch = order.batch * order.passes * order.ranks
    peak = settings.lr_max or (2.0 if settings.optimizer == "lars" else 0.1 * batch / 256)
    warmup = min(round(settings.warmup_epochs * epoch), steps // 2)

    def rate(step: int) -> float:
        return schedule.rate(step, steps, peak, warmup, settings.lr_decay_mode, settings.lr_end)

    rate(steps)  # a schedule that does not exist is told now rather than after the warm-up
    return epoch, steps, rate


def main() -> int:
    settings = labels.read(Settings, sys.argv[1:])
    settings.optimizer = OPTIMIZERS.get(settings.optimizer, settings.optimizer)
    with record.phase("prepare"):
        where = world.join()
        torch.manual_seed(settings.seed)
    with record.phase("dataload"):
        data = opened(settings, where.device)
    model = ResNet(data.classes, settings.depth, settings.width, data.image_size)
    model = model.to(where.device, memory_format=torch.channels_last)
    optimizer = Optimizer(settings.optimizer, model, weight_decay=settings.weight_decay, momentum=settings.momentum)
    order = Order.of(settings, data.samples, where.rank, where.size)
    model.remember(order.passes)
    epoch, steps, rate = learning(settings, order)

    smoothing = settings.label_smooth_factor if settings.use_label_smooth else 0.0

    def loss(model: nn.Module, images: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(model(images).float(), wanted, label_smoothing=smoothing)

    step = Stepper(where, settings, model, loss, optimizer, order.passes)
    evaluate = (lambda: evaluated(where, settings, model, data)) if data.validation else None
    try:
        return Training(
            where, settings, model, optimizer, step, rate, lambda first: data.batches(order, first), steps, epoch, evaluate
        ).run()
    finally:
        where.leave()


if __name__ == "__main__":
    labels.run(main)

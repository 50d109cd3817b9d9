"""BERT's pre-training: masked words and next sentences, from TFRecord files in the layout of AISBench or from random tokens.

python train.py --data_path=DIRECTORY --bert_network=large --batch_size=64
python train.py --synthetic --seq_length=128 --batch_size=256 --train_steps=100
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch

import batches
import generate
import sequences
from batches import Tensors
from bert import NETWORKS, Bert, Size
from checkpoint_in import BadCheckpoint, take
from common import labels, places, schedule
from common.feeding import Feed
from common.labels import Count, Fraction, Wrong
from common.optimizers import Optimizer
from common.order import Order
from common.records import record
from common.stepping import Speed, Stepper
from common.training import Training
from common.world import World, join

STARTING = "ms_bert_large.ckpt"  # of AISBench's data set
OPTIMIZERS = {"adamweightdecay": "adamw"}  # MindSpore's names for them
KERNELS = ("auto", "cudnn", "flash", "efficient", "math")
PREDICTIONS = {128: 20, 512: 76}  # masked words of a sequence in the data sets that people have
ENDLESS = 1 << 40  # samples that a source of random ones has


@dataclass
class Settings(Speed):
    """BERT's own labels; the defaults of the optimizer are those of MindSpore's model zoo for LAMB and a trained checkpoint."""

    bert_network: str = "large"
    load_checkpoint_path: str = ""  # to start from; else ms_bert_large.ckpt beside the data, where it is
    eval_data_dir: str = ""  # else val/ beside train/
    generate: bool = False  # makes a small data set where data_path names none
    synthetic: bool = False  # random tokens, made on the device, instead of data
    seq_length: Count = 512  # of random sequences; data has its own
    max_predictions_per_seq: int = 0  # of random sequences; 0: 20 at 128, 76 at 512
    optimizer: str = "lamb"
    learning_rate: float = 3.5e-4
    end_learning_rate: float = 1e-9
    power: float = 1.2
    warmup_steps: int = 0
    weight_decay: float = 0.0166629
    beta1: Fraction = 0.86
    beta2: Fraction = 0.98
    eps: float = 1e-6
    clip: float = 1.0  # the largest norm of all gradients; 0: they stay as they are
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.1
    gelu: str = "tanh"  # as in Google's code; or none for the exact one
    attention: str = "auto"  # the kernel: cudnn, flash, efficient or math; auto leaves it to PyTorch
    layout: str = "padded"  # or packed, where padding is not computed
    masters: str = "parameters"  # float32 weights are the parameters themselves, or kept by the optimizer beside bf16 ones


@dataclass(frozen=True)
class Data:
    """Where batches come from."""

    samples: int
    batches: Callable[[int], Iterator[Tensors]]
    validation: Callable[[], Iterator[Tensors]] | None = None  # none where there is nothing to find


def main() -> int:
    settings = labels.read(Settings, sys.argv[1:])
    check(settings)
    world = join()
    try:
        if settings.generate:
            generated(settings, world)
        with record.phase("prepare"):
            size = NETWORKS[settings.bert_network]
            model = network(settings, size, world)
            optimizer = optimizer_of(settings, model)
            passes = schedule.passes(settings, world.size)
            step = Stepper(world, settings, model, lambda model, *batch: model(*batch), optimizer, passes, settings.clip)
        with record.phase("dataload"):
            data = synthetic(settings, size, world) if settings.synthetic else real(settings, size, world)
        epoch, steps = schedule.lengths(settings, data.samples, world.size)
        evaluate = (lambda: accuracy(model, data, world)) if data.validation else None
        rates = lambda done: rate(settings, done, steps)  # noqa: E731
        return Training(world, settings, model, optimizer, step, rates, data.batches, steps, epoch, evaluate).run()
    except BadCheckpoint as error:
        raise Wrong(str(error)) from None
    finally:
        world.leave()


def check(settings: Settings) -> None:
    """Words that settings take, before anything is loaded."""
    settings.optimizer = OPTIMIZERS.get(settings.optimizer.lower(), settings.optimizer.lower())
    choices = {
        "bert_network": tuple(NETWORKS),
        "optimizer": ("lamb", "adamw"),
        "gelu": ("tanh", "none"),
        "attention": KERNELS,
        "layout": ("padded", "packed"),
        "masters": ("parameters", "optimizer"),
    }
    for name, words in choices.items():
        if getattr(settings, name) not in words:
            raise Wrong(f"Label {name} is `{getattr(settings, name)}`. It takes {', '.join(words[:-1])} or {words[-1]}.")
    if settings.synthetic and not settings.train_steps:
        raise Wrong("Random sequences have no end. Say how long to train with --train_steps.")


def generated(settings: Settings, world: World) -> None:
    """One rank of each node makes the data set, unless it is there; where it cannot, all ranks say so."""

    def make(folder: Path) -> None:
        generate.generate(folder, network=settings.bert_network)

    world.agree(lambda: places.made(settings, make) if world.local == 0 else None)


def network(settings: Settings, size: Size, world: World) -> Bert:
    """The network on its device, with the weights that it starts from."""
    choose_attention(settings.attention)
    low = settings.precision == "bf16" or (settings.precision == "auto" and world.device.type != "cpu")
    torch.manual_seed(settings.seed)
    with torch.device(world.device):
        activations = torch.bfloat16 if low else torch.float32
        model = Bert(size, settings.dropout, settings.attention_dropout, settings.gelu, activations)
    start = starting_checkpoint(settings)
    if start is not None:
        taken = take(start, model, size.vocabulary)
        if world.first:
            print(taken, flush=True)
    torch.manual_seed(settings.seed + world.rank)  # from here on it draws dropout, which ranks do not share
    return model.to(torch.bfloat16) if settings.masters == "optimizer" else model


def starting_checkpoint(settings: Settings) -> Path | None:
    told = settings.load_checkpoint_path or os.environ.get("PRETRAIN_MODEL_PATH", "")
    if told:
        return Path(os.path.expandvars(told))
    if settings.synthetic:
        return None
    beside = places.data(settings, required=False) / STARTING
    return beside if beside.is_file() else None


def choose_attention(kernel: str) -> None:
    """Leaves one of the fused kernels; the mathematical one alone where that is asked for."""
    if kernel != "auto":
        cuda = torch.backends.cuda
        for name, enable in (
            ("cudnn", cuda.enable_cudnn_sdp),
            ("flash", cuda.enable_flash_sdp),
            ("efficient", cuda.enable_mem_efficient_sdp),
            ("math", cuda.enable_math_sdp),
        ):
            enable(name == kernel)


def optimizer_of(settings: Settings, model: Bert) -> Optimizer:
    return Optimizer(
        settings.optimizer,
        model,
        weight_decay=settings.weight_decay,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        masters=settings.masters == "optimizer",
    )


def rate(settings: Settings, step: int, steps: int) -> float:
    end, power = settings.end_learning_rate, settings.power
    return schedule.rate(step, steps, settings.learning_rate, settings.warmup_steps, "poly", end, power)


def real(settings: Settings, size: Size, world: World) -> Data:
    """The files of the data set; their arrays lie where all ranks of the run see them."""
    folder, cache = places.data(settings), Path(os.environ.get("MUSTER_SHARED", ""), "decoded")
    inside = folder / "train"
    train = sequences.load(inside if inside.is_dir() else folder, cache, world)
    val = sequences.load(validation_folder(settings, folder), cache, world)
    order = Order.of(settings, len(train), world.rank, world.size)
    packed = settings.layout == "packed"
    if packed and world.device.type not in ("cpu", "cuda"):
        raise Wrong("Packed sequences need a GPU of NVIDIA. Leave --layout out.")
    check_length(max(train.length, val.length), size)
    if val.highest >= size.vocabulary:  # those of the training are looked at batch by batch
        raise batches.unknown(size.vocabulary)
    weighty = bool(val.weights.any())
    if world.first and not weighty:
        print("No masked word to evaluate with has a weight (masked_lm_weights): there is no accuracy", flush=True)
    return Data(
        len(train),
        lambda first: Feed(batches.training(train, order, first, size.vocabulary, packed), world.device),
        (lambda: Feed(batches.validation(val, settings.batch_size, world, packed), world.device)) if weighty else None,
    )


def check_length(length: int, size: Size) -> None:
    if length > size.positions:
        hint = "Take another with --bert_network."
        raise Wrong(f"Sequences have {length} tokens, and the network {size.positions} positions. {hint}")


def validation_folder(settings: Settings, folder: Path) -> Path:
    """val/ beside train/, unless a label or AISBench's variable names another."""
    told = settings.eval_data_dir or os.environ.get("EVAL_DATA_PATH", "")
    if told:
        return Path(os.path.expandvars(told))
    return folder.parent / "val" if folder.name == "train" else folder / "val"


def synthetic(settings: Settings, size: Size, world: World) -> Data:
    length = settings.seq_length
    masked = settings.max_predictions_per_seq or PREDICTIONS.get(length, math.ceil(0.15 * length))
    check_length(length, size)
    if masked > length:
        raise Wrong(f"Label max_predictions_per_seq is {masked}. It takes a number up to seq_length, which is {length}.")
    made = batches.synthetic(settings.batch_size, length, masked, size.vocabulary, world.device)
    return Data(ENDLESS, lambda first: made)


def accuracy(model: Bert, data: Data, world: World) -> dict[str, float]:
    """The share of masked words that are found, by weight, over the whole validation set."""
    assert data.validation is not None
    hits = [torch.zeros(2, device=world.device)]
    with torch.no_grad():
        hits += [model.hits(*batch) for batch in data.validation()]
    found, weight = world.sum(torch.stack(hits).cpu().double().sum(0).tolist())
    return {"accuracy": found / weight}


if __name__ == "__main__":
    labels.run(main)

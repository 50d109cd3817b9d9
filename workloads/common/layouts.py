"""Where images lie: ImageNet's folders, `train/<class>/*.JPEG` and `val/<class>/*.JPEG`, or CIFAR-10's binary files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.labels import Common, Wrong
from common.pixels import ENDINGS

SIDE = 32  # of CIFAR-10's images
CLASSES = 10
ROW = 1 + 3 * SIDE * SIDE  # a byte for the label, then the colours one after the other
CIFAR = {"train": ("data_batch_*.bin", ("train",)), "val": ("test_batch.bin", ("eval", "val", "test"))}
DATASETS = ("auto", "imagenet2012", "cifar10", "synthetic")


@dataclass(frozen=True)
class Place:
    """Where the images to train on and those to evaluate lie, and in which of the two layouts."""

    is_cifar: bool
    train: Path
    val: Path


def place(settings: Common, dataset: str, folder: Path) -> Place:
    """The directories of both parts; AISBench's variables name one for each, where no label names the data."""
    named = bool(settings.data_url or settings.data_path)
    told = "" if named else os.path.expandvars(os.environ.get("EVAL_DATA_PATH", ""))
    if dataset == "cifar10" or (dataset == "auto" and is_cifar(folder)):
        return Place(True, folder, Path(told or folder))
    inside = folder / "train"
    whole = named or inside.is_dir() or Path(os.environ.get("TRAIN_DATA_PATH", "")).name == inside.name
    train = inside if whole else folder
    return Place(False, train, Path(told or train.parent / "val"))


def is_cifar(folder: Path) -> bool:
    """Whether a folder holds CIFAR-10: flat as in its archive, or in `train` and `eval` as ModelArts' guides have it."""
    if any((folder / place / "data_batch_1").exists() for place in ("", "cifar-10-batches-py", "train")):
        raise Wrong(f"{folder} holds CIFAR-10's Python version. Take its binary version, whose files end with .bin.")
    return bool(_cifar_files(folder, "train"))


def cifar(folder: Path, part: str, classes: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The labels and the images, count × 3 × 32 × 32, of one part of CIFAR-10; 10 classes unless told otherwise."""
    files = _cifar_files(folder, part)
    if not files:
        wanted = "data_batch_1.bin" if part == "train" else "test_batch.bin"
        raise Wrong(f"{folder} has no {wanted}. Put CIFAR-10's binary files there, or make some with generate.py.")
    rows = np.concatenate([_rows(path, classes or CLASSES) for path in files])
    return rows[:, 0], rows[:, 1:].reshape(-1, 3, SIDE, SIDE)


def _cifar_files(folder: Path, part: str) -> list[Path]:
    name, below = CIFAR[part]
    for place in ("", "cifar-10-batches-bin", *below):
        if files := sorted((folder / place).glob(name)):
            return files
    return []


def _rows(path: Path, classes: int) -> np.ndarray:
    data = np.fromfile(path, dtype=np.uint8)
    if not len(data) or len(data) % ROW:
        raise Wrong(f"{path} has {len(data):,} bytes, which is no multiple of {ROW:,}. It is not whole: copy it again.")
    rows = data.reshape(-1, ROW)
    if (highest := rows[:, 0].max()) >= classes:
        raise Wrong(f"{path} has label {highest}, and there are {classes} classes. Copy it again, or give another class_num.")
    return rows


def folders(root: Path, classes: Sequence[str] = ()) -> tuple[list[str], list[int], list[str]]:
    """The files of one part, their labels and all classes, which are numbered as the names of the folders in `train` sort."""
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir()) if root.is_dir() else []
    if not names:
        raise Wrong(f"{root} has no folders with images. Put one per class there, or make some with generate.py.")
    known = list(classes) or names
    if strange := sorted(set(names) - set(known)):
        raise Wrong(f"{root} has a class `{strange[0]}` that is not in train. Give both the same classes.")
    numbers = {name: number for number, name in enumerate(known)}
    found = [(path, numbers[name]) for name in names for path in _images(root / name)]
    if not found:
        raise Wrong(f"The folders in {root} have no images ({', '.join(ENDINGS)}). Copy them there.")
    return [path for path, _ in found], [number for _, number in found], known


def _images(folder: Path) -> list[str]:
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.lower().endswith(ENDINGS))


def classes(wanted: int, found: int) -> int:
    """As many classes as a network tells apart: those of the data, or more where class_num says so."""
    if 0 < wanted < found:
        raise Wrong(f"The data has {found} classes, and class_num is {wanted}. Leave that out.")
    return wanted or found

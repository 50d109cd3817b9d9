"""BERT's sequences: decoded once per run from TFRecord files and kept as mapped arrays, which all ranks of a node share."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tfrecord
from common.labels import Wrong
from common.world import World

FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "next_sentence_labels",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
)
Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sequences:
    """All sequences of a data set, in the order of its files; the arrays of each file are mapped, not read."""

    parts: list[Rows]

    def __post_init__(self) -> None:
        shapes = {(part["tokens"].shape[1], part["positions"].shape[1]) for part in self.parts}
        if len(shapes) > 1:
            raise Wrong(f"The files hold sequences of different lengths ({shapes}). Keep them in directories of their own.")

    def __len__(self) -> int:
        return sum(len(part["tokens"]) for part in self.parts)

    @property
    def length(self) -> int:
        return int(self.parts[0]["tokens"].shape[1])

    @property
    def full(self) -> bool:
        """Whether no sequence is padded."""
        return all((part["lengths"] == self.length).all() for part in self.parts)

    @property
    def weights(self) -> np.ndarray:
        """Of each sequence: the sum over its masked tokens."""
        return np.concatenate([part["weights"].sum(1, dtype=np.float64) for part in self.parts])

    def rows(self, samples: np.ndarray) -> Rows:
        """Some of the sequences, copied."""
        ends = np.cumsum([len(part["tokens"]) for part in self.parts])
        of = np.searchsorted(ends, samples, side="right")
        out = {name: np.empty((len(samples), *array.shape[1:]), array.dtype) for name, array in self.parts[0].items()}
        for number in np.unique(of):
            here = np.flatnonzero(of == number)
            part = self.parts[number]
            inside = samples[here] - ends[number] + len(part["tokens"])
            for name, array in out.items():
                array[here] = part[name][inside]
        return out


def load(folder: Path, cache: Path, world: World) -> Sequences:
    """The sequences of all TFRecord files of a directory; each rank decodes some of the files for all."""
    files = sorted(path for path in folder.glob("*tfrecord*") if path.is_file())
    if not files:
        raise Wrong(f"There is no TFRecord file in {folder}. Name a directory with train/*.tfrecord and val/*.tfrecord.")
    for path in files[world.rank :: world.size]:
        _decoded(path, cache)
    world.barrier()
    return Sequences([_mapped(_decoded(path, cache)) for path in files])


def _decoded(path: Path, cache: Path) -> Path:
    """The directory with the arrays of a file; it is made under a temporary name, so that a half-made one is never seen."""
    state = path.stat()
    target = cache / f"{path.name}-{state.st_size}-{state.st_mtime_ns}"
    if target.is_dir():
        return target
    made = cache / f"{target.name}.{os.uname().nodename}.{os.getpid()}"
    made.mkdir(parents=True)
    for name, array in _arrays(path).items():
        np.save(made / f"{name}.npy", array)
    try:
        made.rename(target)
    except OSError:  # another rank was quicker
        shutil.rmtree(made)
    return target


def _mapped(folder: Path) -> Rows:
    return {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}


def _arrays(path: Path) -> Rows:
    """A file's features in the types that need the least memory."""
    found: dict[str, np.ndarray] = tfrecord.read(path, FEATURES)
    mask, positions = found["input_mask"], found["masked_lm_positions"]
    wrong: str | None = None
    if (np.diff(mask, axis=1) > 0).any():
        wrong = "an input_mask with a hole"
    elif positions.size and positions.max() >= mask.shape[1]:
        wrong = "a masked position behind the end of its sequence"
    elif found["segment_ids"].max(initial=0) > 1 or found["next_sentence_labels"].max(initial=0) > 1:
        wrong = "segments or labels other than 0 and 1"
    if wrong:
        raise Wrong(f"{path} has {wrong}. Make the file anew.")
    return {
        "tokens": found["input_ids"].astype(np.int32),
        "lengths": mask.sum(1).astype(np.int32),
        "segments": found["segment_ids"].astype(np.uint8),
        "follows": found["next_sentence_labels"].reshape(-1).astype(np.int64),
        "positions": positions.astype(np.int32),
        "targets": found["masked_lm_ids"].astype(np.int32),
        "weights": found["masked_lm_weights"].astype(np.float32),
    }

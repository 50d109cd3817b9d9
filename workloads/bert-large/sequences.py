"""BERT's sequences: decoded once per run from TFRecord files and kept as mapped arrays, which all ranks of a node share."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tfrecord
from common.labels import Wrong
from common.world import World
from tfrecord import BadRecord

FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "next_sentence_labels",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
)
LAYOUT = "Name a directory with train/*.tfrecord and val/*.tfrecord."
Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class Sequences:
    """All sequences of a data set, in the order of its files; the arrays of each file are mapped, not read."""

    parts: list[Rows]

    def __post_init__(self) -> None:
        lengths = sorted({part["tokens"].shape[1] for part in self.parts})
        if len(lengths) > 1:
            raise Wrong(f"The files hold sequences of {_listed(lengths)} tokens. Keep them in directories of their own.")
        masked = sorted({part["positions"].shape[1] for part in self.parts})
        if len(masked) > 1:
            raise Wrong(f"The files have {_listed(masked)} masked words a sequence. Keep them in directories of their own.")

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
    def highest(self) -> int:
        """The highest number of a word; all of the data is read for it."""
        return max(int(part[name].max()) for part in self.parts for name in ("tokens", "targets"))

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
    files = sorted(path for path in folder.glob("*tfrecord*") if path.is_file() and path.stat().st_size)
    if not files:
        raise Wrong(f"There is no TFRecord file with records in {folder}. {LAYOUT}")
    world.agree(lambda: [_decoded(path, cache) for path in files[world.rank :: world.size]])
    return Sequences([_mapped(_decoded(path, cache)) for path in files])


def _decoded(path: Path, cache: Path) -> Path:
    """The directory with the arrays of a file; it is made under a temporary name, so that a half-made one is never seen."""
    state = path.stat()
    target = cache / f"{path.parent.name}-{path.name}-{state.st_size}-{state.st_mtime_ns}"
    if target.is_dir():
        return target
    arrays = _arrays(path)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
        for name, array in arrays.items():
            np.save(made / f"{name}.npy", array)
    except OSError as error:
        reason = error.strerror or error
        raise Wrong(f"What is decoded of {path} cannot be written to {cache}: {reason}. Make room there.") from None
    try:
        made.rename(target)
    except OSError:  # another rank was quicker
        shutil.rmtree(made)
    return target


def _mapped(folder: Path) -> Rows:
    return {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}


def _arrays(path: Path) -> Rows:
    """A file's features in the types that need the least memory; what only fills up points to no word."""
    try:
        found: dict[str, np.ndarray] = tfrecord.read(path, FEATURES)
    except BadRecord as error:
        raise Wrong(str(error)) from None
    wrong = _wrong(found)
    if wrong:
        raise Wrong(f"{path} has {wrong}. Make the file anew.")
    counted = found["masked_lm_weights"] > 0
    return {
        "tokens": found["input_ids"].astype(np.int32),
        "lengths": found["input_mask"].sum(1).astype(np.int32),
        "segments": found["segment_ids"].astype(np.uint8),
        "follows": found["next_sentence_labels"].reshape(-1).astype(np.int64),
        "positions": (found["masked_lm_positions"] * counted).astype(np.int32),
        "targets": (found["masked_lm_ids"] * counted).astype(np.int32),
        "weights": found["masked_lm_weights"].astype(np.float32),
    }


def _wrong(found: Rows) -> str:
    """What is wrong with the features of a file, in a few words; empty where nothing is."""
    tokens, mask, segments, labels, positions, words, weights = (found[name] for name in FEATURES)
    if not mask.shape == segments.shape == tokens.shape or not tokens.shape[1] or labels.shape[1] != 1:
        return "tokens, masks, segments and labels that do not fit together"
    if not words.shape == weights.shape == positions.shape or not positions.shape[1]:
        return "masked positions, ids and weights that do not fit together"
    if any(((flags != 0) & (flags != 1)).any() for flags in (mask, segments, labels)):
        return "masks, segments or labels other than 0 and 1"
    if (np.diff(mask, axis=1) > 0).any() or not mask[:, 0].all():
        return "an input_mask with a hole"
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        return "masked_lm_weights that are no weights"
    if tokens.min() < 0 or words[weights > 0].min(initial=0) < 0:
        return "words with negative numbers"
    beyond = (positions < 0) | (positions >= mask.sum(1, keepdims=True))
    return "a masked position behind the end of its sequence" if beyond[weights > 0].any() else ""


def _listed(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"

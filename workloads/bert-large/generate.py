"""A small data set in the layout of AISBench's, from which a model can learn: train/ and val/ with TFRecords, and a checkpoint.

    python generate.py DIRECTORY [--train 4096] [--val 512] [--length 32] [--network tiny]

The language has a few rings of words. A sentence walks along one ring in step with its places, and one word in ten is another
one of the ring; the second part of a sequence stays on the ring of the first when it follows, and else walks along another.
So a masked word is found from the words around it and from its place, nine times in ten and sometimes by luck (91 %), and the
next sentence from both rings. The same arguments always give the same bytes; a directory that exists is left as it is.
"""

from __future__ import annotations

import argparse
import math
import secrets
import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tfrecord

SEED = 2937
CLS, SEP, MASK = 101, 102, 103  # as in BERT's vocabulary; 0 pads
FIRST_WORD = 128
RINGS, WORDS = 8, 8
SLIP = 0.1
MASKED = 0.15
TRAIN, VAL, LENGTH = 4096, 512, 32
FILES = 2  # of training


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes a small data set for BERT's pre-training.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=TRAIN, help="sequences to train with")
    parser.add_argument("--val", type=int, default=VAL, help="sequences to evaluate with")
    parser.add_argument("--length", type=int, default=LENGTH, help="of a sequence")
    parser.add_argument(
        "--network", default="tiny", choices=("tiny", "base", "large"), help="for which the starting checkpoint is"
    )
    options = parser.parse_args()
    try:
        generate(options.folder, options.train, options.val, options.length, options.network)
    except OSError as error:
        parser.error(f"{options.folder} cannot be written: {error.strerror}. Make room, or name another directory.")


def generate(folder: Path, train: int = TRAIN, val: int = VAL, length: int = LENGTH, network: str = "tiny") -> None:
    """Writes everything beside the directory and renames it in the end; of several that do so at once one wins."""
    if folder.is_dir():
        return
    made = folder.with_name(f"{folder.name}.tmp-{secrets.token_hex(4)}")  # nodes may number their processes alike
    try:
        write(made, train, val, length, network)
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another was quicker with the same files
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def write(folder: Path, train: int, val: int, length: int, network: str) -> None:
    """All files of the data set."""
    (folder / "train").mkdir(parents=True)
    (folder / "val").mkdir()
    for number in range(FILES):
        rng = np.random.Generator(np.random.PCG64([SEED, number]))
        tfrecord.write(folder / "train" / f"part-{number:05d}.tfrecord", sequences(rng, (train + number) // FILES, length))
    rng = np.random.Generator(np.random.PCG64([SEED, FILES]))
    tfrecord.write(folder / "val" / "eval_10k.tfrecord", sequences(rng, val, length))
    checkpoint(folder / "ms_bert_large.ckpt", network)


def sequences(rng: np.random.Generator, count: int, length: int) -> dict[str, np.ndarray]:
    """The seven features: [CLS] first part [SEP] second part [SEP], of any length from half of the whole on."""
    ends = rng.integers(length // 2, length, count, endpoint=True)
    middles = rng.integers(ends // 3, 2 * ends // 3)
    other = rng.integers(0, 2, count)
    ring = rng.integers(0, RINGS, count)
    second_ring = (ring + other * rng.integers(1, RINGS, count)) % RINGS
    places = np.arange(length)
    second = (places > middles[:, None]) & (places < ends[:, None])
    text = np.where(second, _walks(rng, second_ring, length), _walks(rng, ring, length))
    text[:, 0] = CLS
    text[(places == middles[:, None]) | (places == ends[:, None] - 1)] = SEP
    text[places >= ends[:, None]] = 0
    masked = _masks(rng, text)
    inputs = text.copy()
    inputs[masked] = _hidden(rng, text[masked])
    positions, weights = _listed(masked, math.ceil(MASKED * length))
    return {
        "input_ids": inputs,
        "input_mask": (places < ends[:, None]).astype(np.int64),
        "segment_ids": second.astype(np.int64),
        "next_sentence_labels": other[:, None],
        "masked_lm_positions": positions,
        "masked_lm_ids": np.take_along_axis(text, positions, 1) * (weights > 0),
        "masked_lm_weights": weights,
    }


def _walks(rng: np.random.Generator, ring: np.ndarray, length: int) -> np.ndarray:
    """A walk along the ring of each row."""
    astray = rng.random((len(ring), length)) < SLIP
    step = np.where(astray, rng.integers(0, WORDS, (len(ring), length)), np.arange(length) % WORDS)
    return FIRST_WORD + ring[:, None] * WORDS + step


def _masks(rng: np.random.Generator, text: np.ndarray) -> np.ndarray:
    """Which words are to be found: the same share of each sequence, at least one."""
    words = text >= FIRST_WORD
    chances = np.where(words, rng.random(text.shape), 2.0)
    count = np.maximum(1, (MASKED * words.sum(1)).astype(int))
    chosen: np.ndarray = np.argsort(np.argsort(chances, 1), 1) < count[:, None]
    return chosen


def _hidden(rng: np.random.Generator, words: np.ndarray) -> np.ndarray:
    """As in the paper: most are masked, one in ten is another word, and one in ten stays."""
    fate = rng.random(len(words))
    others = FIRST_WORD + rng.integers(0, RINGS * WORDS, len(words))
    return np.where(fate < 0.8, MASK, np.where(fate < 0.9, others, words))


def _listed(masked: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the masked words of each row from left to right, filled up with zeros, and their weights."""
    first = np.argsort(~masked, 1, kind="stable")[:, :most]
    there = np.take_along_axis(masked, first, 1)
    return first * there, there.astype(np.float32)


def checkpoint(path: Path, network: str) -> None:
    """A network that has learned nothing yet, as MindSpore would have written it."""
    import torch

    import mindspore_ckpt
    from bert import NETWORKS, Bert
    from checkpoint_in import MINDSPORE, exported

    torch.manual_seed(SEED)
    size = NETWORKS[network]
    mindspore_ckpt.write(path, exported(Bert(size), size.vocabulary, MINDSPORE))


if __name__ == "__main__":
    main()

"""A process that decodes JPEG files into memory that it shares with the training: NumPy and Pillow alone, no PyTorch.

It is started with two sockets and a piece of memory by `images.Decoders`, works on one task after the other, and ends when the
training does: its socket is closed then, however that came.
"""

from __future__ import annotations

import json
import mmap
import random
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import turbo
from common import seat
from common.labels import Wrong
from common.pixels import Quick, choice, decode, part

LARGEST = 1 << 17  # bytes of one task
HEAD = 16  # bytes before a part: its height and width, 1 when it is to be mirrored, and nothing


def row_bytes(size: int, most: int) -> int:
    """What an image takes: one that is ready, or, where `most` is given, a part of up to so many pixels."""
    return HEAD + -(-most * 3 // HEAD) * HEAD if most else size * size * 3


class Work:
    """Decodes the images of each task into its rows of the memory and tells when they are there."""

    def __init__(self, memory: np.ndarray, size: int, most: int, seed: int, smallest_area: float) -> None:
        self.memory, self.size, self.most, self.seed, self.smallest_area = memory, size, most, seed, smallest_area
        self.quick: Quick | None = None
        self.by = ""
        if most:
            self.quick, self.by = turbo.opener()

    def run(self, tasks: socket.socket, results: socket.socket) -> None:
        while message := tasks.recv(LARGEST):
            ticket, training, epoch, images = json.loads(message.decode(errors="surrogateescape"))
            answer: list[Any] = [ticket, len(images), ""]
            for row, index, path in images:
                try:
                    self.fill(self.memory[row], path, choice(self.seed, epoch, index) if training else None)
                except Wrong as wrong:
                    answer[2] = str(wrong)
                except Exception as error:  # of an odd file, or of a library; the training ends with it, and knows the file
                    answer[2] = f"{path} cannot be decoded ({type(error).__name__}: {error}). Copy it again, or remove it."
            results.send(json.dumps(answer).encode())

    def fill(self, row: np.ndarray, path: str, chance: random.Random | None) -> None:
        if self.quick and chance:
            pixels, mirrored = part(path, self.size, chance, self.smallest_area, self.most, self.quick)
            row[:HEAD].view(np.int32)[:] = *pixels.shape[:2], mirrored, 0
            row[HEAD : HEAD + pixels.size] = pixels.reshape(-1)
        else:
            row[:] = decode(path, self.size, chance, self.smallest_area).reshape(-1)


def main(tasks: int, results: int, memory: int, rows: int, size: int, most: int, seed: int, permille: int, number: int) -> None:
    shared = np.frombuffer(mmap.mmap(memory, 0), dtype=np.uint8)[: rows * row_bytes(size, most)].reshape(rows, -1)
    try:
        work = Work(shared, size, most, seed, permille / 1000)
        if work.by and number == 0 and seat.rank() == 0:
            print(f"JPEG files are decoded by {work.by}", flush=True)
        work.run(socket.socket(fileno=tasks), socket.socket(fileno=results))
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the training has ended


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

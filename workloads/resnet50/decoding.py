"""A process that decodes JPEG files into memory that it shares with the training: NumPy and Pillow alone, no PyTorch.

It is started with two sockets and a piece of memory by `images.Decoders`, works on one task after the other, and ends when the
training does: its socket is closed then, however that came.
"""

from __future__ import annotations

import json
import mmap
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from common.labels import Wrong
from common.pixels import choice, decode

LARGEST = 1 << 17  # bytes of one task


def work(tasks: socket.socket, results: socket.socket, memory: np.ndarray, size: int, seed: int, smallest_area: float) -> None:
    """Decodes the images of each task into its rows of the memory and tells when they are there."""
    while message := tasks.recv(LARGEST):
        ticket, training, epoch, images = json.loads(message)
        answer: list[Any] = [ticket, len(images), ""]
        for row, index, path in images:
            try:
                memory[row] = decode(path, size, choice(seed, epoch, index) if training else None, smallest_area)
            except Wrong as wrong:
                answer[2] = str(wrong)
        results.send(json.dumps(answer).encode())


def main(tasks: int, results: int, memory: int, rows: int, size: int, seed: int, permille: int) -> None:
    shared = np.frombuffer(mmap.mmap(memory, 0), dtype=np.uint8)[: rows * size * size * 3].reshape(rows, size, size, 3)
    try:
        work(socket.socket(fileno=tasks), socket.socket(fileno=results), shared, size, seed, permille / 1000)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the training has ended


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

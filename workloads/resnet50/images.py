"""ImageNet's folders, `train/<class>/*.JPEG` and `val/<class>/*.JPEG`, decoded by processes."""

from __future__ import annotations

import collections
import contextlib
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import decoding
from common import layouts
from common.feeding import Batch
from common.labels import Wrong
from common.order import Chunks

SLOTS = 4  # batches that are being decoded or wait
PIECES = 16  # tasks that a batch is cut into
SMALLEST = 8  # images of a task
PATIENCE = 5.0  # seconds without a result after which the processes are looked at


class Folder:
    """The files of one part of the data set with their labels; classes are numbered as the names of their folders sort."""

    def __init__(self, folder: Path, classes: Sequence[str] = ()) -> None:
        self.paths, labels, self.classes = layouts.folders(folder, classes)
        self.labels = torch.tensor(labels, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.paths)


class Decoders:
    """Processes that fill rows of one piece of memory with images; they take tasks from one socket as they are free.

    Images are ready, size × size × 3; or, where `most` is given, parts of up to so many pixels that `cutting` makes ready.
    """

    def __init__(
        self, workers: int, batch: int, size: int, seed: int, smallest_area: float, pinned: bool, most: int = 0
    ) -> None:
        self.batch = batch
        rows = SLOTS * batch
        memory = os.memfd_create("images")
        os.truncate(memory, rows * decoding.row_bytes(size, most))
        self._memory = mmap.mmap(memory, 0)
        shape = (SLOTS, batch, -1) if most else (SLOTS, batch, size, size, 3)
        self.slots = torch.from_numpy(np.frombuffer(self._memory, dtype=np.uint8).reshape(shape))
        self._pinned = pinned
        if pinned and int(torch.cuda.cudart().cudaHostRegister(self.slots.data_ptr(), self.slots.numel(), 0)):
            size_in_mb = self.slots.numel() // 1_000_000
            raise Wrong(f"The GPU cannot be given {size_in_mb:,} MB of this machine's memory. Take a smaller batch_size.")
        self._tasks, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._results, answers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._results.settimeout(PATIENCE)
        numbers = (theirs.fileno(), answers.fileno(), memory, rows, size, most, seed, round(smallest_area * 1000))
        command = [sys.executable, decoding.__file__, *map(str, numbers)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        with _deaf():
            self._processes = [
                subprocess.Popen([*command, str(number)], pass_fds=numbers[:3], env=environment) for number in range(workers)
            ]
        theirs.close()
        answers.close()
        os.close(memory)
        self._left: dict[int, int] = collections.Counter()

    def start(self, slot: int, paths: Sequence[str], indices: Sequence[int], epoch: int | None) -> None:
        """Lets images be decoded into a slot; with an epoch as training wants them, else as evaluation does."""
        piece = max(SMALLEST, -(-len(paths) // PIECES))
        rows = [(slot * self.batch + row, int(index), path) for row, (index, path) in enumerate(zip(indices, paths))]
        self._left[slot] = len(rows)
        for first in range(0, len(rows), piece):
            words = json.dumps([slot, epoch is not None, epoch or 0, rows[first : first + piece]], ensure_ascii=False)
            task = words.encode(errors="surrogateescape")  # names of files may be in any encoding
            if len(task) > decoding.LARGEST:
                raise Wrong(f"The paths of {piece} images are too long for one task. Take shorter ones, or a smaller batch.")
            try:
                self._tasks.send(task)
            except (BrokenPipeError, ConnectionResetError):
                raise _gone(self._processes[0]) from None

    def wait(self, slot: int) -> Tensor:
        """The images of a slot, as soon as all are there; they stay until the slot is used again."""
        while self._left[slot]:
            done, count, problem = json.loads(self._result())
            if problem:
                raise Wrong(problem)
            self._left[done] -= count
        return self.slots[slot]

    def _result(self) -> bytes:
        while True:
            try:
                if message := self._results.recv(decoding.LARGEST):
                    return message
                raise _gone(self._processes[0])
            except socket.timeout:  # noqa: UP041  (not TimeoutError before Python 3.10)
                for process in self._processes:
                    if process.poll() is not None:
                        raise _gone(process) from None

    def close(self) -> None:
        """Closes the sockets, upon which the processes end."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.slots.data_ptr())
        self._tasks.close()
        self._results.close()
        for process in self._processes:
            process.wait()


def _gone(process: subprocess.Popen[bytes]) -> Wrong:
    code = process.wait()
    advice = "Is there enough memory?" if code < 0 else "What it said stands above."
    return Wrong(f"A process that decodes images ended with {code}. {advice}")


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started now do not hear what a whole group is told; they end when the training has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Images:
    """Batches of a folder, decoded in the background."""

    def __init__(self, folder: Folder, decoders: Callable[[], Decoders]) -> None:
        self.folder, self.decoders = folder, decoders

    def batches(self, chunks: Chunks) -> Generator[Batch, None, None]:
        """The images of chunks of samples, with their labels; they are there until the next batch is asked for."""
        with contextlib.closing(self.decoders()) as decoders:
            flying = collections.deque(self._start(decoders, slot, *next(chunks)) for slot in range(SLOTS))
            while True:
                slot, chosen = flying.popleft()
                yield self._landed(decoders, slot, chosen)
                flying.append(self._start(decoders, slot, *next(chunks)))

    def _start(self, decoders: Decoders, slot: int, epoch: int | None, chosen: np.ndarray) -> tuple[int, np.ndarray]:
        decoders.start(slot, [self.folder.paths[index] for index in chosen], chosen.tolist(), epoch)
        return slot, chosen

    def evaluation(self, shares: Iterator[np.ndarray]) -> Iterator[Batch]:
        """The images of a rank's share, cut from the middle."""
        flying: collections.deque[tuple[int, np.ndarray]] = collections.deque()
        with contextlib.closing(self.decoders()) as decoders:
            for number, chosen in enumerate(shares):
                if len(flying) == SLOTS:
                    yield self._landed(decoders, *flying.popleft())
                flying.append(self._start(decoders, number % SLOTS, None, chosen))
            while flying:
                yield self._landed(decoders, *flying.popleft())

    def _landed(self, decoders: Decoders, slot: int, chosen: np.ndarray) -> Batch:
        return decoders.wait(slot)[: len(chosen)], self.folder.labels[chosen]

"""JPEG files decoded by the GPU (nvJPEG, through torchvision where that is installed), cut and mirrored there.

Beside a training the decoder takes several times as long as alone (H200, workloads/README.md). So batches are on their way in
more than one thread: while one is decoded, another one is cut; and the CPUs take a part of them.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Generator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from common import pixels
from common.feeding import Batch
from common.order import Chunks
from images import Folder, Images

READERS = 8
PIECE = 32  # files that a reader takes at a time
DECODERS = 2  # batches that the GPU works on at a time
AS_CPUS = 20  # so many CPUs decode as much as the GPU does beside a training (H200)
AHEAD = 4  # batches that are read, decoded, cut or wait


def available(device: torch.device) -> bool:
    """Whether there is a GPU to decode with, and torchvision and Triton to do so."""
    try:
        import torchvision.io  # noqa: F401
        import triton  # noqa: F401
    except (ImportError, RuntimeError):  # RuntimeError: built for another PyTorch
        return False
    return bool(device.type == "cuda")


class GpuImages:
    """Batches of a folder; they are random parts of its images, perhaps mirrored."""

    def __init__(self, folder: Folder, device: torch.device, size: int, seed: int, smallest_area: float) -> None:
        from torchvision import io

        from cutting import cut

        self._io: Any = io
        self._cut = cut
        self.folder, self.size, self.seed, self.smallest_area = folder, size, seed, smallest_area
        self._device = device

    def batches(self, chunks: Chunks) -> Generator[Batch, None, None]:
        """The images of chunks of samples, with their labels."""
        with ThreadPoolExecutor(READERS) as readers, ThreadPoolExecutor(DECODERS, initializer=self._enter) as decoders:
            flying = collections.deque(self._start(*next(chunks), readers, decoders) for _ in range(AHEAD))
            while True:
                yield flying.popleft().result()
                flying.append(self._start(*next(chunks), readers, decoders))

    def _enter(self) -> None:
        """Gives a thread a stream of its own, ahead of the training's."""
        torch.cuda.set_device(self._device)
        torch.cuda.set_stream(torch.cuda.Stream(self._device, priority=-1))

    def _start(self, epoch: int, chosen: np.ndarray, readers: Executor, decoders: Executor) -> Future[Batch]:
        paths = [self.folder.paths[index] for index in chosen]
        pieces = [paths[first : first + PIECE] for first in range(0, len(paths), PIECE)]
        return decoders.submit(self._batch, [readers.submit(self._read, piece) for piece in pieces], paths, epoch, chosen)

    def _batch(self, files: list[Future[list[Tensor]]], paths: Sequence[str], epoch: int, chosen: np.ndarray) -> Batch:
        images = self._images([file for piece in files for file in piece.result()], paths)
        batch = self._parts(images, epoch, chosen), self.folder.labels[chosen]
        torch.cuda.current_stream().synchronize()  # until then the images must stay
        return batch

    def _read(self, paths: Sequence[str]) -> list[Tensor]:
        return [self._io.read_file(path) for path in paths]

    def _images(self, files: list[Tensor], paths: Sequence[str]) -> list[Tensor]:
        """Colour × height × width; what nvJPEG cannot read (a PNG, CMYK) Pillow can."""
        try:
            return self._decoded(files)
        except RuntimeError:
            return [self._one(file, path) for file, path in zip(files, paths)]

    def _decoded(self, files: list[Tensor]) -> list[Tensor]:
        images: list[Tensor] = self._io.decode_jpeg(files, mode=self._io.ImageReadMode.RGB, device=self._device)
        return images

    def _one(self, file: Tensor, path: str) -> Tensor:
        try:
            return self._decoded([file])[0]
        except RuntimeError:
            return torch.from_numpy(pixels.whole(path)).permute(2, 0, 1).contiguous().to(self._device)

    def _parts(self, images: Sequence[Tensor], epoch: int, chosen: np.ndarray) -> Tensor:
        """Count × size × size × 3."""
        parts = [self._part(image, epoch, index) for image, index in zip(images, chosen.tolist())]
        addresses = torch.tensor([image.data_ptr() for image in images])
        return self._cut(self._moved(addresses), self._moved(torch.tensor(parts, dtype=torch.int32)), self.size)

    def _part(self, image: Tensor, epoch: int, index: int) -> tuple[int, ...]:
        """What `cutting` is told about an image: its size, the part of it that is wanted, whether it is mirrored."""
        height, width = image.shape[1:]
        numbers = pixels.choice(self.seed, epoch, index)
        left, top, right, bottom = map(int, pixels.training_box(width, height, numbers, self.smallest_area))
        return height, width, left, top, right - left, bottom - top, int(numbers.random() < 0.5)

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(self._device, non_blocking=True)


class Both:
    """Batches whose first images the GPU decodes, and whose others the CPUs do, each as many as suits its speed."""

    def __init__(self, gpu: GpuImages, cpus: Images, workers: int) -> None:
        self.gpu, self.cpus, self.share = gpu, cpus, AS_CPUS / (AS_CPUS + workers)

    def batches(self, chunks: Chunks) -> Generator[Batch, None, None]:
        """The images of chunks of samples; a batch must be computed when the next one is asked for."""
        here, there = itertools.tee(chunks)
        ours = self.gpu.batches((epoch, chosen[: self._cut(chosen)]) for epoch, chosen in here)
        theirs = self.cpus.batches((epoch, chosen[self._cut(chosen) :]) for epoch, chosen in there)
        with contextlib.closing(ours), contextlib.closing(theirs):
            for (images, labels), (others, their_labels) in zip(ours, theirs):
                moved = others.to(images.device, non_blocking=True)
                yield torch.cat([images, moved]), torch.cat([labels, their_labels])

    def _cut(self, chosen: np.ndarray) -> int:
        return max(1, round(self.share * len(chosen)))

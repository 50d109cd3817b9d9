"""JPEG files decoded by the GPU (nvJPEG, through torchvision where that is installed), cut and mirrored there.

Beside a training a call of the decoder takes three times as long as alone (H200). So it gets many images at once, in a thread
of its own, while those that it decoded before are trained on.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from common import pixels
from common.feeding import Batch
from common.order import Order
from images import Folder

READERS = 8
PIECE = 32  # files that a reader takes at a time
GROUP = 1 << 30  # bytes of the images that are decoded at once, about
SAMPLE = 16  # images by which their size is judged
Group = tuple["list[tuple[int, np.ndarray]]", "Future[tuple[list[Tensor], Any]]"]


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
        self._together = GROUP // _bytes(folder.paths[:: max(1, len(folder) // SAMPLE)])
        self._device, self._stream = device, torch.cuda.Stream(device, priority=-1)

    def batches(self, order: Order, first: int) -> Iterator[Batch]:
        """What a rank trains on from a step on; a batch must be computed when the next one is asked for."""
        chunks = order.chunks(first)
        with ThreadPoolExecutor(READERS) as readers, ThreadPoolExecutor(1) as decoder:
            groups = collections.deque(self._start(chunks, order.batch, readers, decoder) for _ in range(2))
            while True:
                group, found = groups.popleft()
                images, decoded = found.result()  # which stay until all their parts are computed: that is another stream's work
                decoded.wait()
                for number, (epoch, chosen) in enumerate(group):
                    own = images[number * order.batch : (number + 1) * order.batch]
                    yield self._parts(own, epoch, chosen), self.folder.labels[chosen]
                groups.append(self._start(chunks, order.batch, readers, decoder))

    def _start(self, chunks: Iterator[Any], batch: int, readers: ThreadPoolExecutor, decoder: ThreadPoolExecutor) -> Group:
        """Starts to read and to decode the images of the next batches."""
        group = [next(chunks) for _ in range(max(1, self._together // batch))]
        paths = [self.folder.paths[index] for _, chosen in group for index in chosen]
        pieces = [paths[first : first + PIECE] for first in range(0, len(paths), PIECE)]
        files = [readers.submit(self._read, piece) for piece in pieces]
        return group, decoder.submit(self._decode, files, paths)

    def _read(self, paths: Sequence[str]) -> list[Tensor]:
        return [self._io.read_file(path) for path in paths]

    def _decode(self, files: list[Future[list[Tensor]]], paths: Sequence[str]) -> tuple[list[Tensor], Any]:
        """Colour × height × width, and when they will be; what nvJPEG cannot read (a PNG, CMYK) Pillow can."""
        read = [file for piece in files for file in piece.result()]
        with torch.cuda.stream(self._stream):
            try:
                images = self._decoded(read)
            except RuntimeError:
                images = [self._one(file, path) for file, path in zip(read, paths)]
            return images, self._stream.record_event()

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


def _bytes(paths: Sequence[str]) -> int:
    """How many bytes an image has, on the average."""
    return sum(3 * width * height for width, height in map(pixels.dimensions, paths)) // len(paths)

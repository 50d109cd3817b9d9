"""JPEG files decoded by the GPU (nvJPEG, through torchvision where that is installed), cut and mirrored there."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from common import pixels

READERS = 8
Started = tuple["list[Future[Tensor]]", Sequence[str], Sequence[int], int]


def available(device: torch.device) -> bool:
    """Whether torchvision can be imported and there is a GPU to decode with."""
    try:
        import torchvision.io  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except (ImportError, RuntimeError):  # RuntimeError: built for another PyTorch
        return False
    return bool(device.type == "cuda")


class GpuDecoder:
    """Reads files in threads and decodes them when they are wanted, in the stream of whoever wants them."""

    def __init__(self, device: torch.device, size: int, seed: int, smallest_area: float) -> None:
        from torchvision import io

        self._io: Any = io
        self._device, self._size, self._seed, self._smallest_area = device, size, seed, smallest_area
        self._readers = ThreadPoolExecutor(READERS)

    def start(self, paths: Sequence[str], indices: Sequence[int], epoch: int) -> Started:
        """Starts to read files."""
        return [self._readers.submit(self._io.read_file, path) for path in paths], paths, indices, epoch

    def finish(self, started: Started) -> Tensor:
        """The images of files that were started, count × size × size × 3."""
        files, paths, indices, epoch = started
        images = self._decoded([file.result() for file in files], paths)
        parts, mirrored = [], []
        for image, index in zip(images, indices):
            numbers = pixels.choice(self._seed, epoch, index)
            left, top, right, bottom = pixels.training_box(image.shape[2], image.shape[1], numbers, self._smallest_area)
            parts.append(resized(image[None, :, int(top) : int(bottom), int(left) : int(right)], self._size))
            mirrored.append(numbers.random() < 0.5)
        flags = self.moved(torch.tensor(mirrored).pin_memory())
        batch = torch.cat(parts)
        batch = torch.where(flags[:, None, None, None], batch.flip(3), batch)
        return batch.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()

    def moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device, non_blocking=True)

    def _decoded(self, files: list[Tensor], paths: Sequence[str]) -> list[Tensor]:
        """Colour × height × width; what nvJPEG cannot read (a PNG, CMYK) Pillow can."""
        try:
            decoded: list[Tensor] = self._io.decode_jpeg(files, mode=self._io.ImageReadMode.RGB, device=self._device)
            return decoded
        except RuntimeError:
            return [self._one(file, path) for file, path in zip(files, paths)]

    def _one(self, file: Tensor, path: str) -> Tensor:
        found: Tensor | None = None
        try:
            found = self._io.decode_jpeg([file], mode=self._io.ImageReadMode.RGB, device=self._device)[0]
        except RuntimeError:
            found = torch.from_numpy(pixels.whole(path)).permute(2, 0, 1).to(self._device)
        return found


def resized(part: Tensor, size: int) -> Tensor:
    """A part of an image as size × size, smoothed where it becomes smaller, as Pillow does it."""
    return functional.interpolate(part.float(), (size, size), mode="bilinear", antialias=True)

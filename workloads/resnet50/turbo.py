"""Parts of JPEG files, without what lies around them: libjpeg-turbo, as nvImageCodec has it, where that is installed.

Pillow decodes whole files. No other package on PyPI was found that decodes a part and brings its library along.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from common.pixels import Box, Quick


class Jpeg:
    """A JPEG file that is read, with its size."""

    def __init__(self, codec: Any, decoder: Any, path: str) -> None:
        with open(path, "rb", 0) as file:
            self._stream = codec.CodeStream(file.read())
        self.width, self.height = self._stream.width, self._stream.height
        self._codec, self._decoder = codec, decoder

    def part(self, box: Box) -> np.ndarray | None:
        left, top, right, bottom = map(int, box)
        region = self._stream.get_sub_code_stream(region=self._codec.Region(top, left, bottom, right))
        image = self._decoder.decode(region, params=self._codec.DecodeParams(apply_exif_orientation=False))
        return None if image is None else np.asarray(image)


def opener() -> Quick:
    """Opens a file; None for what is no JPEG file, and for everything where nvImageCodec is missing."""
    try:
        with _silence():
            from nvidia import nvimgcodec as codec  # type: ignore[import-not-found]

            backends = [codec.Backend(codec.BackendKind.CPU_ONLY)]
            decoder = codec.Decoder(codec.NVIMGCODEC_DEVICE_CPU_ONLY, max_num_cpu_threads=1, backends=backends)
    except ImportError:
        return lambda path: None

    def opened(path: str) -> Jpeg | None:
        try:
            return Jpeg(codec, decoder, path)
        except (OSError, RuntimeError):
            return None  # Pillow can, or says what is wrong

    return opened


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """nvImageCodec complains at length about each of NVIDIA's libraries that is missing, none of which is wanted."""
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

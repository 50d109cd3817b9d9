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

JPEG = b"\xff\xd8"  # how such a file begins


class Jpeg:
    """A JPEG file that is read, with its size."""

    def __init__(self, codec: Any, decoder: Any, data: bytes) -> None:
        self._stream = codec.CodeStream(data)
        self.width, self.height = self._stream.width, self._stream.height
        self._codec, self._decoder = codec, decoder

    def part(self, box: Box) -> np.ndarray | None:
        left, top, right, bottom = map(int, box)
        region = self._stream.get_sub_code_stream(region=self._codec.Region(top, left, bottom, right))
        image = self._decoder.decode(region, params=self._codec.DecodeParams(apply_exif_orientation=False))
        return None if image is None else np.asarray(image)


def opener() -> tuple[Quick, str]:
    """What opens JPEG files, and none other, and what decodes them; without nvImageCodec it opens none."""
    try:
        with _silence():
            from nvidia import nvimgcodec as codec  # type: ignore[import-not-found]

            backends = [codec.Backend(codec.BackendKind.CPU_ONLY)]
            decoder = codec.Decoder(codec.NVIMGCODEC_DEVICE_CPU_ONLY, max_num_cpu_threads=1, backends=backends)
    except Exception as error:  # it is not there, too old, or does not find what it needs
        return lambda path: None, f"Pillow, since nvImageCodec 0.9 or newer cannot be had ({error})"

    def opened(path: str) -> Jpeg | None:
        try:
            with open(path, "rb", 0) as file:
                data = file.read()
            return Jpeg(codec, decoder, data) if data.startswith(JPEG) else None
        except (OSError, RuntimeError):
            return None  # Pillow can, or says what is wrong

    return opened, f"nvImageCodec {codec.__version__}"


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

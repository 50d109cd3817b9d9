"""Images that the GPU decodes and cuts are those of the CPUs. No test machine has a GPU: this runs where PyTorch finds one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from resnet_programs import ENVIRONMENT, RESNET

DECODED = """
import sys
from pathlib import Path
import numpy as np, torch
from PIL import Image
from torch.nn.functional import interpolate
import cutting
from common import pixels
from common.feeding import Feed
from common.order import Order
from gpu_decoding import Both, GpuImages
from images import Decoders, Folder, Images

device = torch.device("cuda", 0)
sizes = torch.randint(30, 700, (40, 2)).tolist()
sources = [torch.randint(0, 256, (3, *size), dtype=torch.uint8, device=device) for size in sizes]
parts = [(h, w, w // 5, h // 7, w - w // 3, h - h // 3, n % 2) for n, (h, w) in enumerate(sizes)]
for size in (224, 97, 32):
    addresses = torch.tensor([source.data_ptr() for source in sources], device=device)
    got = cutting.cut(addresses, torch.tensor(parts, dtype=torch.int32, device=device), size).float()
    for one, source, (_, _, left, top, w, h, mirrored) in zip(got, sources, parts):
        part = source[None, :, top : top + h, left : left + w].float()
        wanted = interpolate(part, (size, size), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
        assert (one - (wanted.flip(1) if mirrored else wanted)).abs().max() <= 1

folder = Folder(Path(sys.argv[1], "train"))
for path, mode in zip(folder.paths, ("CMYK", "L")):  # which nvJPEG may leave to Pillow
    Image.open(path).convert(mode).save(path, "JPEG")
order = Order(len(folder), 8, 1, 0, 1, seed=1)
gpu = GpuImages(folder, device, 64, 1, 0.08)
both = Both(gpu, Images(folder, lambda: Decoders(2, 8, 64, 1, 0.08, True)), workers=20)
for source in (gpu, both):
    feed = Feed(source.batches(order.chunks(3)), device)
    for _, (epoch, chosen) in zip(range(20), order.chunks(3)):
        images, labels = next(feed)
        assert labels.tolist() == folder.labels[chosen].tolist()
        for image, index in zip(images.cpu().numpy().astype(int), chosen.tolist()):
            wanted = pixels.decode(folder.paths[index], 64, pixels.choice(1, epoch, index), 0.08)
            assert np.abs(image - wanted).mean() < 6  # two decoders: they differ in how they enlarge colours
    feed.close()
"""


def with_gpu(*words: object) -> subprocess.CompletedProcess[str]:
    """A program of the Python that runs the tests, which on a machine with a GPU has PyTorch itself."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env={**ENVIRONMENT, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)


def test_images_are_decoded_and_cut_by_the_gpu_as_by_the_cpus(tmp_path: Path) -> None:
    if with_gpu("-c", "import torch, torchvision, triton; assert torch.cuda.is_available()").returncode:
        pytest.skip("the Python of the tests has no PyTorch, torchvision and Triton with a GPU")
    assert not with_gpu(RESNET / "generate.py", tmp_path / "data", "--train=60", "--val=5", "--size=200").returncode
    done = with_gpu("-c", DECODED, tmp_path / "data")
    assert not done.returncode, done.stdout + done.stderr

"""Parts of images that Triton's kernel resizes are those of PyTorch and of the CPUs; without a GPU its interpreter does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from resnet_programs import RESNET, python

CUT = """
import sys
from pathlib import Path
import numpy as np, torch
from PIL import Image
from torch.nn.functional import interpolate
import cutting, decoding
from common import pixels
from common.feeding import Feed
from common.order import Order
from images import Decoders, Folder, Images

device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
on_gpu = device.type == "cuda"
sizes = torch.randint(3, 700 if on_gpu else 90, (40 if on_gpu else 4, 2)).tolist()
rows = np.zeros((len(sizes), decoding.row_bytes(0, 490000)), np.uint8)
for number, (row, (h, w)) in enumerate(zip(rows, sizes)):
    row[:16].view(np.int32)[:] = h, w, number % 2, 0
    row[16 : 16 + h * w * 3] = np.random.default_rng(number).integers(0, 256, h * w * 3)
for size in (224, 97, 32) if on_gpu else (20,):
    got = cutting.cut(torch.from_numpy(rows).to(device), size).float().cpu()
    for one, row, (h, w), number in zip(got, rows, sizes, range(len(sizes))):
        part = torch.from_numpy(row[16 : 16 + h * w * 3].reshape(1, h, w, 3)).permute(0, 3, 1, 2).float()
        wanted = interpolate(part, (size, size), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
        assert (one - (wanted.flip(1) if number % 2 else wanted)).abs().max() <= 1

folder = Folder(Path(sys.argv[1], "train"))
order = Order(len(folder), 8, 1, 0, 1, seed=1)
source = cutting.Cut(Images(folder, lambda: Decoders(2, 8, 32, 1, 0.08, on_gpu, most=4096)), device, 32)
feed = Feed(source.batches(order.chunks(3)), device)
for _, (epoch, chosen) in zip(range(20 if on_gpu else 1), order.chunks(3)):
    images, labels = next(feed)
    assert labels.tolist() == folder.labels[chosen].tolist()
    for image, index in zip(images.cpu().numpy().astype(int), chosen.tolist()):
        part, mirrored = pixels.part(folder.paths[index], 32, pixels.choice(1, epoch, index), 0.08, 4096, lambda path: None)
        wanted = np.asarray(Image.fromarray(part).resize((32, 32), Image.Resampling.BILINEAR)).astype(int)
        assert np.abs(image - (wanted[:, ::-1] if mirrored else wanted)).max() <= 2
feed.close()
"""


def test_parts_are_resized_by_the_kernel_as_by_pytorch_and_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "True" not in python("-c", "import torch; print(torch.cuda.is_available())"):
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    python(RESNET / "generate.py", tmp_path / "data", "--train=60", "--val=5", "--size=100")
    python("-c", CUT, tmp_path / "data")

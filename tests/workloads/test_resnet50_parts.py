"""The parts of ResNet-50's workload: layouts of data, decoding, order, optimizers, the network, and the labels of AISBench."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from resnet_programs import RESNET, TINY, python
from resnet_programs import cifar as cifar

pytestmark = pytest.mark.timeout(600)

LAYOUTS = """
import sys
from pathlib import Path
import numpy as np, torch
from PIL import Image
from cifar import Cifar
from common.labels import Wrong
from common import layouts, pixels
from common.order import Order, shares
from images import Decoders, Folder, Images

here = Path(sys.argv[1])
train = Folder(here / "train")
assert len(train) == 57 and train.classes == ["n%08d" % i for i in range(5)]
assert train.labels.bincount().tolist() == [12, 12, 11, 11, 11]
decoders = lambda: Decoders(2, 8, 24, 1, 0.3, False)
order = Order(57, 8, 1, 0, 1, seed=1)
batches = Images(train, decoders).batches(order.chunks(2))
for number, (epoch, chosen) in zip(range(12), order.chunks(2)):  # over the end of an epoch
    images, labels = next(batches)
    for row, index in enumerate(chosen):
        assert labels[row] == train.labels[index]
        wanted = pixels.decode(train.paths[index], 24, pixels.choice(1, epoch, int(index)), 0.3)
        assert np.array_equal(images[row].numpy(), wanted)
batches.close()
parts = Images(train, lambda: Decoders(2, 8, 24, 1, 0.3, False, most=900)).batches(order.chunks(2))
for _, (epoch, chosen) in zip(range(3), order.chunks(2)):
    for row, index in zip(next(parts)[0].numpy(), chosen.tolist()):
        wanted, mirrored = pixels.part(train.paths[index], 24, pixels.choice(1, epoch, index), 0.3, 900, lambda path: None)
        assert row[:16].view(np.int32).tolist() == [*wanted.shape[:2], mirrored, 0]
        assert np.array_equal(row[16 : 16 + wanted.size], wanted.reshape(-1))
parts.close()
seen = [images.shape[0] for images, _ in Images(train, decoders).evaluation(shares(57, 8, 1, 2))]
assert seen == [8, 8, 8, 4], seen
middle = next(Images(train, decoders).evaluation(iter([np.array([5])])))[0][0].numpy()
with Image.open(train.paths[5]) as image:
    near = np.asarray(image.resize((24, 24), Image.Resampling.BILINEAR))
assert np.abs(middle.astype(int) - near).mean() < 2

Path(train.paths[30]).write_bytes(b"no image")
try:
    for _ in Images(train, decoders).evaluation(shares(57, 8, 0, 1)):
        pass
    raise SystemExit("a broken file was not told")
except Wrong as wrong:
    assert train.paths[30] in str(wrong), wrong
for workers in (1, 2):  # the last one that dies, and one of several
    dying = Decoders(workers, 8, 24, 1, 0.3, False)
    dying.start(0, train.paths[:8], range(8), 0)
    dying.wait(0)
    for process in dying._processes:
        process.kill()
        process.wait()
    try:
        dying.start(1, train.paths[:8], range(8), 0)
        dying.wait(1)
        raise SystemExit("the end of decoders was not told")
    except Wrong as wrong:
        assert "ended with -9" in str(wrong), wrong
    dying.close()

flat = Path(sys.argv[2])
part = Cifar(flat, "val", torch.device("cpu"))
raw = np.fromfile(flat / "test_batch.bin", np.uint8).reshape(-1, 3073)
assert len(part) == 101 and part.images.shape == (101, 32, 32, 3) and part.labels.tolist() == raw[:, 0].tolist()
assert (part.images[7, 3, 5].numpy() == raw[7, 1:].reshape(3, 32, 32)[:, 3, 5]).all()
guide = here / "guide"  # as in ModelArts' guide
for name, kind in (("train", "data_batch_*.bin"), ("eval", "test_batch.bin")):
    (guide / name).mkdir(parents=True)
    for path in flat.glob(kind):
        (guide / name / path.name).symlink_to(path)
assert layouts.is_cifar(guide) and not layouts.is_cifar(here)
train = Cifar(guide, "train", torch.device("cpu"))
order = Order(203, 16, 1, 0, 1, seed=1)
halves = [Cifar.batches(train, Order(203, 8, 1, rank, 2, seed=1), 3) for rank in (0, 1)]
(images, labels), *parts = [next(batches) for batches in (train.batches(order, 3), *halves)]
assert torch.equal(images, torch.cat([part[0] for part in parts]))
assert torch.equal(labels, torch.cat([part[1] for part in parts]))
padded = torch.nn.functional.pad(train.images, (0, 0, 4, 4, 4, 4))
for row, index in enumerate(order.permutation(0)[48:64]):  # each is a shifted, perhaps mirrored part of its image
    views = [padded[index, top : top + 32, left : left + 32] for top in range(9) for left in range(9)]
    assert any(torch.equal(images[row], view) or torch.equal(images[row], view.flip(1)) for view in views)
(guide / "eval" / "test_batch.bin").unlink()
(guide / "eval" / "test_batch.bin").write_bytes(b"short")
try:
    Cifar(guide, "val", torch.device("cpu"))
    raise SystemExit("a short file was not told")
except Wrong as wrong:
    assert "5 bytes" in str(wrong)
"""

KINDS = """
import json, os, shutil, socket, sys
from pathlib import Path
from types import ModuleType
import numpy as np, torch
import nvidia
from PIL import Image
import decoding, turbo
from common import layouts, pixels
from common.labels import Wrong
from common.order import Order
from images import Decoders, Folder, Images

here = Path(sys.argv[1])
grid = np.stack(np.meshgrid(np.arange(60) * 4, np.arange(40) * 6, indexing="xy"), 2).astype(np.uint8)
coloured = Image.fromarray(np.concatenate([grid, grid[..., :1]], 2))
exif = Image.Exif()
exif[0x112] = 6  # "turn me": nobody in the field does
saved = {
    "grey.jpg": coloured.convert("L"), "cmyk.JPEG": coloured.convert("CMYK"), "palette.png": coloured.convert("P"),
    "alpha.png": coloured.convert("RGBA"), "bits.png": coloured.convert("1"), "plain.png": coloured,
    "dot.png": coloured.crop((0, 0, 1, 1)),
}
for name, image in saved.items():
    image.save(here / name)
coloured.save(here / "turned.jpg", exif=exif, quality=95)
coloured.save(here / "halves.jpg", subsampling=1)
coloured.save(here / "waves.jpg", progressive=True)

(quick, by), slow = turbo.opener(), lambda path: None
assert by.startswith("nvImageCodec ")
assert quick(str(here / "turned.jpg")).part((3, 5, 20, 16)).shape == (11, 17, 3)  # nvImageCodec is there
for name in (*saved, "turned.jpg", "halves.jpg", "waves.jpg"):
    for index in range(20):
        parts = [pixels.part(str(here / name), 40, pixels.choice(1, 2, index), 0.2, 4000, way) for way in (quick, slow)]
        assert np.array_equal(parts[0][0], parts[1][0]) and parts[0][1] == parts[1][1], name
        part, mirrored = parts[0]
        wanted = pixels.decode(str(here / name), 16, pixels.choice(1, 2, index), 0.2).astype(int)
        found = np.asarray(Image.fromarray(part).resize((16, 16), Image.Resampling.BILINEAR))
        assert np.abs((found[:, ::-1] if mirrored else found) - wanted).mean() < 4, name
large = pixels.part(str(here / "turned.jpg"), 16, pixels.choice(1, 2, 3), 0.9, 300, quick)[0]
assert large.shape == (16, 16, 3)  # a part of more pixels than there is room for
Image.effect_noise((101, 87), 80).save(here / "noise.jpg")
coloured.crop((7, 0, 8, 40)).save(here / "line.jpg")
for name in ("noise.jpg", "line.jpg"):
    for index in range(300):
        for way in (quick, slow):
            part, _ = pixels.part(str(here / name), 8, pixels.choice(1, 2, index), 0.08, 256, way)
            assert 0 < part.size <= 3 * 256, (name, index, part.shape)  # files that are decoded at half their size, too
gbk = os.fsencode(here / "names") + b"/" + "\u732b".encode("gbk")
os.makedirs(gbk)
for number in range(4):
    shutil.copy(here / "turned.jpg", gbk + b"/%d.jpg" % number)
order = Order(4, 4, 1, 0, 1, seed=1)
odd = Images(Folder(here / "names"), lambda: Decoders(2, 4, 16, 1, 0.2, False, most=4000)).batches(order.chunks(0))
rows, _ = next(odd)
assert all(row[:16].view(np.int32)[0] > 0 for row in rows.numpy())
odd.close()
tasks, results = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
tasks[0].send(json.dumps([0, True, 0, [[0, 0, str(here / "turned.jpg")]]]).encode())
tasks[0].close()
decoding.Work(np.zeros((1, 5), np.uint8), 16, 0, 1, 0.2).run(tasks[1], results[1])  # a row that nothing fits into
assert "turned.jpg cannot be decoded (ValueError: " in json.loads(results[0].recv(1000))[2]
nvidia.nvimgcodec = ModuleType("nvimgcodec")  # an older one
assert turbo.opener()[0]("turned.jpg") is None and "Pillow, since nvImageCodec 0.9" in turbo.opener()[1]
for name in (*saved, "turned.jpg"):
    for chance in (None, pixels.choice(1, 2, 3)):
        assert pixels.decode(str(here / name), 16, chance, 0.5).shape == (16, 16, 3), name
    assert pixels.dimensions(str(here / name)) == ((1, 1) if name == "dot.png" else (60, 40))
turned, plain = (pixels.decode(str(here / name), 16, None, 0.5).astype(int) for name in ("turned.jpg", "plain.png"))
assert np.abs(turned - plain).mean() < 6
whole = (here / "turned.jpg").read_bytes()
for name, data in (("cut.jpg", whole[:-300]), ("empty.jpg", b""), ("text.jpg", b"no image")):
    (here / name).write_bytes(data)
    for read in (pixels.decode, lambda path, *more: pixels.part(path, *more, 4000, quick)):
        try:
            read(str(here / name), 16, pixels.choice(1, 2, 3), 0.5)
            raise SystemExit(f"{name} was taken")
        except Wrong as wrong:
            assert f"{name} cannot be decoded" in str(wrong), wrong

def refused(message, work):
    try:
        work()
        raise SystemExit(f"nobody said: {message}")
    except Wrong as wrong:
        assert message in str(wrong), wrong

for name in ("train/a", "train/b", "val/a"):
    (here / name).mkdir(parents=True)
refused("train have no images", lambda: layouts.folders(here / "train"))
(here / "train/a/1.JPEG").write_bytes(whole)
paths, labels, classes = layouts.folders(here / "train")
assert (len(paths), labels, classes) == (1, [0], ["a", "b"])
refused("val have no images", lambda: layouts.folders(here / "val", classes))
(here / "val/c").mkdir()
refused("a class `c` that is not in train", lambda: layouts.folders(here / "val", classes))
(here / "flat/val").mkdir(parents=True)
(here / "flat/val/1.JPEG").write_bytes(whole)
refused("val has no folders with images", lambda: layouts.folders(here / "flat/val", classes))
(here / "flat/data_batch_1").write_bytes(b"pickled")
refused("CIFAR-10's Python version", lambda: layouts.is_cifar(here / "flat"))
refused("has no test_batch.bin", lambda: layouts.cifar(here, "val"))
from train import Settings, opened
(here / "flat/data_batch_1").unlink()
for name in ("data_batch_1.bin", "test_batch.bin"):
    (here / "flat" / name).write_bytes(bytes([9]) + bytes(3072) + bytes([10 if name.startswith("test") else 3]) + bytes(3072))
damaged = lambda **words: lambda: opened(Settings(data_path=str(here / "flat"), **words), torch.device("cpu"))
refused("test_batch.bin has label 10, and there are 10 classes. Copy it again, or give another class_num.", damaged())
refused("data_batch_1.bin has label 9, and there are 9 classes.", damaged(class_num=9, dataset="cifar10"))
refused("flat/train has no folders with images", damaged(dataset="imagenet2012"))
assert damaged(class_num=11)().classes == 11
refused("The data has 10 classes, and class_num is 5.", lambda: layouts.classes(5, 10))
assert (layouts.classes(0, 10), layouts.classes(1001, 1000)) == (10, 1001)
"""

OPTIMIZERS = """
import torch
from common.optimizers import Optimizer
from resnet import ResNet

def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 2))

def lars(p, g, state, decay, rate, count):
    norm, slope = p.norm(), g.norm()
    trusted = p.ndim > 1
    d = g + (decay if trusted else 0) * p
    local = 0.001 * norm / (slope + decay * norm + 1e-9) if trusted else 1.0
    state["m"] = 0.9 * state.get("m", 0) + rate * local * d
    return p - state["m"]

def lamb(p, g, state, decay, rate, count):
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
    update = state["m"] / (1 - 0.9**count) / ((state["v"] / (1 - 0.999**count)).sqrt() + 1e-6)
    if p.ndim > 1:
        update = update + decay * p
    return p - rate * (p.norm() / update.norm() if p.ndim > 1 else 1.0) * update

for kind, plain in (("lars", lars), ("lamb", lamb)):
    ours = model()
    optimizer = Optimizer(kind, ours, weight_decay=0.02)
    theirs, states = [p.detach().clone() for p in ours.parameters()], [{} for _ in ours.parameters()]
    for count in range(1, 5):
        optimizer.zero_grad()
        ours(torch.randn(7, 6)).square().mean().backward()
        optimizer.rate.fill_(0.1 * count)
        theirs = [plain(p, q.grad, s, 0.02, 0.1 * count, count) for p, q, s in zip(theirs, ours.parameters(), states)]
        optimizer.step()
        if count == 2:
            saved = optimizer.state_dict()
            optimizer = Optimizer(kind, ours, weight_decay=0.02)
            optimizer.load_state_dict(saved)
    for mine, wanted in zip(ours.parameters(), theirs):
        torch.testing.assert_close(mine.detach(), wanted)

full, half = model(), model().bfloat16()
optimizers = Optimizer("sgd", full, weight_decay=0.0), Optimizer("sgd", half, weight_decay=0.0, masters=True)
for _ in range(200):
    for optimizer, network in zip(optimizers, (full, half)):
        optimizer.rate.fill_(1e-4)  # too small for bf16 alone
        for parameter in network.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
for mine, wanted in zip(half.parameters(), full.parameters()):
    torch.testing.assert_close(mine.float(), wanted, atol=2e-2, rtol=2e-2)

network = ResNet(10, 14, 8, image_size=64)
assert sum(p.numel() for p in ResNet(1000).parameters()) == 25_557_032
network.eval()
with torch.no_grad():
    block = network.blocks[1]
    assert block.conv2.stride == (2, 2) and block.conv1.stride == (1, 1) and not block.norm3.weight.any()
    for size in ((64, 64), (64, 48), (63, 64)):  # an odd one is not folded
        images = torch.randn(2, *size, 3)
        torch.testing.assert_close(network._first(images), network.conv(images.permute(0, 3, 1, 2)))
    assert network(torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8)).shape == (2, 10)
"""

LABELS = """
import sys
from pathlib import Path
from common import labels, schedule
from common.labels import Wrong
from train import Settings

said = []
read = lambda *words: labels.read(Settings, words, said.append)
settings = read(
    "--config_path=nowhere.yaml", "--enable_modelarts=True", "--run_distribute=True", "--epoch_size=90", "--device_num=8",
    "--save_checkpoint=False", "--save_checkpoint_epochs=90", "--data_url=/d", "--train_url=/t", "--init_method=tcp://x",
    "--num_gpus=8", "--distribute=true", "--enable_save_ckpt=true", "--enable_lossscale=true", "--do_shuffle=true",
    "--enable_data_sink=true", "--data_sink_steps=100", "--accumulation_steps=1", "--save_checkpoint_steps=12000",
    "--save_checkpoint_num=1", "--train_steps=12000",
)
assert (settings.epoch_size, settings.train_steps, settings.save_checkpoint, settings.data_url) == (90, 12000, True, "/d")
assert schedule.lengths(settings, 1_281_167, 8) == (625, 12000)  # train_steps wins
assert "label device_num has no meaning here" in said and any("nowhere.yaml" in line for line in said)
zoo = Path(sys.argv[1], "zoo.yaml")
zoo.write_text(
    "# options\\nbatch_size: 240  # of 910B\\nlr_max: 0.8\\noptimizer: 'LARS'\\nunknown_here: 1\\nuse_label_smooth: False\\n"
    "train_image_size: 192\\nwidth: 224\\nheight: 224\\nall_reduce_fusion_config:\\n    - 85\\n"
    'data_path: "/cache"\\n---\\nlr_max: help\\n'
)
settings = read(f"--config_path={zoo}", "--lr-max", "0.5", "--net_name=resnet50")
assert (settings.batch_size, settings.lr_max, settings.optimizer, settings.data_path) == (240, 0.5, "LARS", "")
assert (settings.image_size, settings.width, settings.use_label_smooth) == (192, 64, False)  # a width there is an image's
assert [f"label {name} has no meaning here" for name in ("unknown_here", "height", "net_name")] == said[-3:]
for words, message in (
    (["--epoch_sise=3"], "There is no label `epoch_sise`. Did you mean `epoch_size`?"),
    (["--epoch_size=many"], "Label epoch_size is `many`. It takes a whole number."),
    (["90"], "`90` is no label"),
    (["--label_smooth_factor=7"], "Label label_smooth_factor is 7.0. It takes a number from 0 to 1."),
    (["--momentum=-1"], "Label momentum is -1.0. It takes a number from 0 to less than 1."),
    (["--image_size=0"], "Label image_size is 0. It takes a number from 1 on."),
    (["--width=0"], "Label width is 0. It takes a number from 1 on."),
    (["--batch_size=0"], "Label batch_size is 0. It takes a number from 1 on."),
    (["--epoch_size=0"], "Label epoch_size is 0. It takes a number from 1 on."),
    (["--smallest_area=2"], "Label smallest_area is 2.0. It takes a number from 0 to 1."),
    (["--warmup_epochs=-1"], "Label warmup_epochs is -1.0. It takes a number from 0 on."),
):
    try:
        read(*words)
        raise SystemExit(f"{words} was taken")
    except Wrong as wrong:
        assert message in str(wrong), wrong
rates = [schedule.rate(step, 100, 1.0, 10) for step in range(100)]
assert rates[9] == 1.0 and rates[0] == 0.1 and rates[99] < 0.01 and all(a >= b for a, b in zip(rates[9:], rates[10:]))
"""


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path.relative_to(folder)).encode() + path.read_bytes() for path in files)).hexdigest()


def test_both_layouts_are_generated_alike_every_time_and_read_image_by_image(cifar: Path, tmp_path: Path) -> None:
    words = ("--train=57", "--val=23", "--classes=5")
    for name in ("a", "b"):
        python(RESNET / "generate.py", tmp_path / name, *words)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    python(RESNET / "generate.py", tmp_path / "a", "--train=1")  # what is there is left alone
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    python("-c", LAYOUTS, tmp_path / "a", cifar)
    assert "take numbers from 1 on" in python(RESNET / "generate.py", tmp_path / "c", "--val=0", code=2)
    assert "/proc/nowhere cannot be written: " in python(RESNET / "generate.py", "/proc/nowhere", code=2)


def test_images_of_all_kinds_are_read_and_what_is_wrong_with_data_is_said(tmp_path: Path) -> None:
    assert python("-c", KINDS, tmp_path).startswith("JPEG files are decoded by nvImageCodec ")


ENDING = """
import atexit, threading
from common import labels

threading.Thread(target=threading.Event().wait).start()  # the interpreter would wait for it
atexit.register(print, "what was left to do")
labels.run(lambda: 7)
"""


def test_a_program_ends_with_its_code_whatever_threads_are_left() -> None:
    assert python("-c", ENDING, code=7) == "what was left to do\n"


def test_optimizers_and_the_network_compute_what_their_formulas_say() -> None:
    python("-c", OPTIMIZERS)


def test_labels_of_aisbench_are_understood_and_others_refused(cifar: Path, tmp_path: Path) -> None:
    python("-c", LABELS, tmp_path)
    said = python(RESNET / "train.py", *TINY, f"--data_path={cifar}", "--lr_decay_mode=steps", code=2, cwd=tmp_path)
    assert said == "`steps` is no schedule. Take one of cosine, poly, linear, constant.\n"  # before the first step
    said = python(RESNET / "train.py", *TINY, "--data_path=/nowhere", code=2, cwd=tmp_path)
    assert said == "There is no directory `/nowhere` with data. Name one with --data_path or --data_url.\n"

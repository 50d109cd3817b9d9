"""ResNet-50 in MindSpore on CPUs: it learns, goes on after a kill, gives the same with two ranks, and knows its labels."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, processes_with, until

ROOT = Path(__file__).parents[2]
WORKLOAD = ROOT / "workloads" / "resnet50-mindspore"
INSTALL = ROOT / "scripts" / "frameworks" / "install.py"
LIMIT = 580  # seconds, on a machine that has other things to do
NARROW = ("--depth=14", "--width=8", "--image_size=32", "--batch_size=8", "--workers=2")
# What AISBench's packages pass, after its reference.
AISBENCH = {
    "config_path": "zoo.yaml",
    "enable_modelarts": "True",
    "run_distribute": "True",
    "epoch_size": "90",
    "device_num": "8",
    "save_checkpoint": "False",
    "save_checkpoint_epochs": "90",
}
ZOO = """
# ResNet
batch_size: 240
lr_max: 0.8
optimizer: 'Momentum'
loss_scale: 512
epoch_size: 1
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def programs() -> str:
    """The directory of MindSpore's programs; without it a test is skipped, or fails where CI has installed it."""
    found = subprocess.run([sys.executable, INSTALL, "--check", "mindspore"], capture_output=True, text=True)
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip())
    return found.stdout.strip()


def python(programs: str, *words: object, code: int = 0, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a program of MindSpore's Python said; it ends with the code that is expected."""
    env = {**os.environ, "PYTHONPATH": f"{WORKLOAD}:{ROOT / 'workloads'}:{ROOT / 'src'}", **(env or {})}
    done = subprocess.run([f"{programs}/python", *map(str, words)], capture_output=True, text=True, env=env, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def recorded(run: Path) -> dict[str, dict[int, float]]:
    """What rank 0 told over all attempts: values by name and step."""
    told: dict[str, dict[int, float]] = {}
    for attempt in sorted((run / "attempts").iterdir()):
        for line in (attempt / "nodes/0/results/record-0.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry.get("step") is not None:
                told.setdefault(entry["name"], {})[entry["step"]] = entry["value"]
    return told


def test_a_small_network_learns_to_the_stated_accuracy(muster: Muster, programs: str, home: Path) -> None:
    path = f"{programs}:{os.environ['PATH']}"
    told = muster("bench", WORKLOAD / "small.yaml", "--json", PATH=path, timeout=LIMIT)
    result = json.loads(told.stdout)
    assert result["verdict"]["passed"], result["verdict"]
    metrics = {name: metric["value"] for name, metric in result["metrics"].items()}
    assert metrics["accuracy"] >= 0.9
    assert metrics["throughput"] > 0
    assert 0 <= metrics["input_wait"] <= 1
    assert metrics["seed"] == 1
    assert all(result["runs"][0]["phases"][name]["seconds"] is not None for name in ("prepare", "dataload", "proc"))
    (run,) = (home / "runs").iterdir()
    losses = recorded(run)["loss"]
    assert list(losses) == list(range(31, 249, 31))
    assert losses[248] < losses[31] / 2
    assert [path.name for path in (run / "shared/checkpoints").iterdir()] == ["checkpoint-000000248.ckpt"]


def ranks(run: str) -> Iterator[tuple[int, int]]:
    """The rank and the process id of each rank that lives."""
    for line in processes_with(f"MUSTER_RUN={run}"):
        pid = int(line.partition(":")[0])
        try:
            environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
        except OSError:
            continue
        found = [entry.removeprefix("MUSTER_RANK=") for entry in environment if entry.startswith("MUSTER_RANK=")]
        if found and "train.py" in line:
            yield int(found[0]), pid


SHORT = {"generate": 400, "width": 4, "train_steps": 12, "lr_max": 0.02, "log_steps": 2, "save_checkpoint_steps": 4}


def test_two_ranks_that_are_killed_in_the_middle_end_as_one_rank_that_was_not(
    muster: Muster, command: list[str], programs: str, home: Path
) -> None:
    words = [WORKLOAD / "small.yaml", "--json", *(f"--set=parameters.{name}={value}" for name, value in SHORT.items())]
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    alone = json.loads(muster("run", *words, PATH=env["PATH"], timeout=LIMIT).stdout)
    assert alone["state"] == "succeeded", alone["reason"]

    # What is left of a gang waits for who was killed: it needs no time to save anything.
    argv = [*command, "run", *map(str, words), "--set=devices=2", "--set=retries=1", "--set=grace=1s"]
    both = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        runs = until(lambda: [path for path in (home / "runs").iterdir() if path != Path(alone["dir"])])
        until(lambda: list(runs[0].glob("shared/checkpoints/checkpoint-*.ckpt")), LIMIT)
        os.kill(dict(ranks(runs[0].name))[1], signal.SIGKILL)
        view: dict[str, Any] = json.loads(both.communicate(timeout=LIMIT)[0])
    finally:
        both.kill()
        both.communicate()
    assert view["state"] == "succeeded", view["reason"]
    assert "goes on after step" in (runs[0] / "attempts/2/nodes/0/logs/rank-0.log").read_text()
    wanted, found = recorded(Path(alone["dir"])), recorded(runs[0])
    assert list(wanted["loss"]) == sorted(found["loss"]) == list(range(2, 13, 2))
    for step, loss in wanted["loss"].items():
        assert found["loss"][step] == pytest.approx(loss, abs=1e-3), step
    assert found["accuracy"][12] == pytest.approx(wanted["accuracy"][12], abs=0.03)


def test_sigterm_saves_and_what_cannot_be_read_is_passed_over(programs: str, tmp_path: Path) -> None:
    """On JPEG files in folders, with a checkpoint that somebody else left half written."""
    python(programs, ROOT / "workloads/resnet50/generate.py", tmp_path / "data", "--classes=3", "--train=48", "--val=9")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/checkpoint-000000007.ckpt").write_bytes(b"half")
    words = [f"--data_path={tmp_path / 'data'}", *NARROW, "--train_steps=1000000", "--eval_steps=2", "--log_steps=5"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
    log = tmp_path / "log"
    with log.open("w") as stream:
        argv = [f"{programs}/python", str(WORKLOAD / "train.py"), *words]
        process = subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=stream, stderr=stream, start_new_session=True)
    try:
        until(lambda: "step 5: loss" in log.read_text() or process.poll() is not None, LIMIT)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(LIMIT) == 143, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "checkpoint-000000007.ckpt cannot be read and is passed over" in log.read_text()
    assert "step 2: accuracy" in log.read_text()
    last = max(int(line.split()[1].strip(":")) for line in log.read_text().splitlines() if ": loss" in line)
    assert f"stopped after step {last}; a checkpoint is saved" in log.read_text()
    assert (tmp_path / f"checkpoints/checkpoint-{last:09d}.ckpt").stat().st_size > 1000
    other = python(programs, WORKLOAD / "train.py", *words, "--width=4", code=2, cwd=tmp_path).splitlines()[-1]
    assert f"checkpoint-{last:09d}.ckpt is the checkpoint of another network or optimizer." in other
    shutil.rmtree(tmp_path / "checkpoints")
    for image in (tmp_path / "data/train/n00000001").iterdir():
        image.write_bytes(image.read_bytes()[:400])
    *_, broken = python(programs, WORKLOAD / "train.py", *words, "--amp_level=O2", code=2, cwd=tmp_path).splitlines()
    assert "data/train/n00000001/" in broken and "cannot be decoded" in broken


def test_what_was_measured_is_told_where_nothing_is_left_to_train(programs: str, tmp_path: Path) -> None:
    python(programs, ROOT / "workloads/resnet50/generate.py", tmp_path / "data", "--classes=3", "--train=48", "--val=9")
    words = [f"--data_path={tmp_path / 'data'}", *NARROW, "--train_steps=4", "--save_checkpoint_steps=4", "--timer_warmup=1"]
    told = []
    for attempt in ("first", "second"):
        (tmp_path / attempt).mkdir()
        env = {"MUSTER_RESULTS": str(tmp_path / attempt), "ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}
        said = python(programs, WORKLOAD / "train.py", *words, cwd=tmp_path, env=env)
        lines = map(json.loads, (tmp_path / attempt / "record-0.jsonl").read_text().splitlines())
        told.append({line["name"]: line["value"] for line in lines if line["kind"] == "metric"})
    assert "goes on after step 4" in said and "no step was timed" not in said
    for name in ("throughput", "input_wait", "accuracy"):
        assert told[1][name] == pytest.approx(told[0][name], rel=1e-6), name


LAYOUTS = """
import json, sys
from pathlib import Path
import numpy as np
import pictures
from common import layouts
from common.labels import Common
from common.order import Order

folder, size = Path(sys.argv[1]), 32
train, val = pictures.find(layouts.place(Common(data_path=sys.argv[1]), "auto", folder), 0, size, 0.5, 2)
batches = {}
for ranks in (1, 2):  # 2 passes of one rank are what 2 ranks have in one
    orders = [Order(len(train.labels), 6, 2 // ranks, rank, ranks, 1) for rank in range(ranks)]
    parts = [pictures.Training(train, order, 1, 4)[2] for order in orders]
    batches[ranks] = [np.concatenate(column) for column in zip(*parts)]
again = pictures.Training(train, orders[0], 1, 4)[3]
shares = [pictures.Evaluation(val, 4, rank, 3) for rank in range(3)]
seen = np.concatenate([share[index][1] for share in shares for index in range(len(share))])
print(json.dumps({
    "classes": train.classes, "counts": [len(train.labels), len(val.labels)], "shape": batches[1][0].shape,
    "type": str(batches[1][0].dtype), "alike": all(np.array_equal(*pair) for pair in zip(batches[1], batches[2])),
    "moves": not np.array_equal(again[0], batches[2][0][:6]),
    "evaluated": sorted(seen[seen >= 0].tolist()) == sorted(val.labels.tolist()),
    "filled": int((seen < 0).sum()),
}))
"""


@pytest.mark.parametrize("layout", ["imagenet", "cifar10", "cifar10 of the guide"])
def test_each_layout_gives_any_number_of_ranks_the_same_images(programs: str, tmp_path: Path, layout: str) -> None:
    data = tmp_path / "data"
    kind = layout.split()[0]
    python(programs, ROOT / "workloads/resnet50/generate.py", data, f"--layout={kind}", "--classes=5", "--train=60", "--val=10")
    if layout.endswith("guide"):
        for place, names in (("train", "data_batch_*.bin"), ("eval", "test_batch.bin")):
            (data / place).mkdir()
            for file in data.glob(names):
                file.rename(data / place / file.name)
    told = json.loads(python(programs, "-c", LAYOUTS, data))
    assert told["counts"] == [60, 10]
    assert told["classes"] == 5
    assert (told["shape"], told["type"]) == ([12, 3, 32, 32], "uint8")
    assert told["alike"] and told["moves"] and told["evaluated"]
    assert told["filled"] == 3 * 4 - 10


OPENED = """
import sys
from train import Settings, opened
train, val = opened(Settings(dataset=sys.argv[1]))
print(len(train.labels), len(val.labels))
"""


@pytest.mark.parametrize("layout", ["imagenet", "cifar10"])
def test_aisbench_variables_name_the_directories_of_both_parts(programs: str, tmp_path: Path, layout: str) -> None:
    for name, train, val in (("data", 12, 7), ("other", 5, 3)):
        words = (f"--layout={layout}", "--classes=2", f"--train={train}", f"--val={val}")
        python(programs, ROOT / "workloads/resnet50/generate.py", tmp_path / name, *words)
    (tmp_path / "data").rename(tmp_path / "training")
    inside = ("train", "val") if layout == "imagenet" else ("", "")
    env = {"TRAIN_DATA_PATH": f"{tmp_path}/training/{inside[0]}", "EVAL_DATA_PATH": f"{tmp_path}/other/{inside[1]}"}
    assert python(programs, "-c", OPENED, "auto", env=env) == "12 3\n"


DAMAGED = """
import sys
from pathlib import Path
from common.labels import Wrong
from train import Settings, opened

for words in ({}, {"class_num": 100}, {"dataset": "imagenet2012"}):
    try:
        opened(Settings(data_path=sys.argv[1], **words))
    except Wrong as wrong:
        print(wrong)
train, _ = opened(Settings(data_path=sys.argv[1], class_num=256))
print(train.classes)
"""


def test_files_with_a_label_that_is_no_class_or_of_another_data_set_are_refused(programs: str, tmp_path: Path) -> None:
    generate, data = ROOT / "workloads/resnet50/generate.py", tmp_path / "data"
    python(programs, generate, data, "--layout=cifar10", "--train=20", "--val=10")
    file = data / "data_batch_2.bin"
    file.write_bytes(b"\xff" + file.read_bytes()[1:])
    assert python(programs, "-c", DAMAGED, data).splitlines() == [
        f"{file} has label 255, and there are 10 classes. Copy it again, or give another class_num.",
        f"{file} has label 255, and there are 100 classes. Copy it again, or give another class_num.",
        f"{data}/train has no folders with images. Put one per class there, or make some with generate.py.",
        "256",
    ]


SERVERS = """
import json, os, sys
from servers import part, stand_alone
from muster.plan import ranktable
from muster.plan.world import Device

servers = [ranktable.Server(f"10.0.0.{i}", tuple(Device(str(d), f"192.168.{i}.{d}") for d in range(4, 8))) for i in (1, 2)]
table = json.loads(ranktable.render("1.0", servers))
alone, rank, size = part(table, 6)
assert (rank, size, alone["server_count"], alone["status"], alone["version"]) == (2, 4, "1", "completed", "1.0")
(server,) = alone["server_list"]
assert server["server_id"] == "10.0.0.2" and [device["rank_id"] for device in server["device"]] == ["0", "1", "2", "3"]
assert [device["device_id"] for device in server["device"]] == ["4", "5", "6", "7"]
whole = sys.argv[1] + "/table.json"
open(whole, "w").write(json.dumps(table))
os.environ.update(RANK_TABLE_FILE=whole, RANK_ID="6", RANK_SIZE="8")
stand_alone()
assert (os.environ["RANK_ID"], os.environ["RANK_SIZE"]) == ("2", "4")
assert json.load(open(os.environ["RANK_TABLE_FILE"])) == alone and json.load(open(whole)) == table  # which is all ranks'
"""


def test_servers_that_train_alone_have_a_rank_table_each(programs: str, tmp_path: Path) -> None:
    python(programs, "-c", SERVERS, tmp_path)
    env = {"SINGLESERVER_MODE": "True"}
    said = python(programs, WORKLOAD / "train.py", code=2, env=env)
    assert "SINGLESERVER_MODE needs Ascend's rank table." in said


WRONG = {
    "epoch_sise=1": "There is no label `epoch_sise`. Did you mean `epoch_size`?",
    "depth=deep": "Label depth is `deep`. It takes a whole number.",
    "label_smooth_factor=7": "Label label_smooth_factor is 7.0. It takes a number from 0 to 1.",
    "momentum=-1": "Label momentum is -1.0. It takes a number from 0 to less than 1.",
    "image_size=0": "Label image_size is 0. It takes a number from 1 on.",
    "width=0": "Label width is 0. It takes a number from 1 on.",
    "batch_size=0": "Label batch_size is 0. It takes a number from 1 on.",
    "epoch_size=0": "Label epoch_size is 0. It takes a number from 1 on.",
    "smallest_area=2": "Label smallest_area is 2.0. It takes a number from 0 to 1.",
    "loss_scale=0": "Label loss_scale is 0.0. It takes a number from 1 on.",
}
READ = """
import dataclasses, json, sys
import train
from common import labels
print(json.dumps(dataclasses.asdict(labels.read(train.Settings, sys.argv[1:]))))
"""


def test_the_labels_of_aisbench_are_known(programs: str, tmp_path: Path) -> None:
    (tmp_path / "zoo.yaml").write_text(ZOO)
    words = [f"--{name}={value}" for name, value in AISBENCH.items()]
    *said, settings = python(programs, "-c", READ, *words, cwd=tmp_path).splitlines()
    assert said == [f"label {name} has no meaning here" for name in ("enable_modelarts", "run_distribute", "device_num")]
    told = json.loads(settings)
    assert {name: told[name] for name in ("batch_size", "lr_max", "loss_scale", "epoch_size", "save_checkpoint")} == {
        "batch_size": 240,
        "lr_max": 0.8,
        "loss_scale": 512,
        "epoch_size": 90,
        "save_checkpoint": False,
    }


@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_label_is_told_at_once(programs: str, label: str) -> None:
    assert python(programs, WORKLOAD / "train.py", f"--{label}", code=2) == f"{WRONG[label]}\n"

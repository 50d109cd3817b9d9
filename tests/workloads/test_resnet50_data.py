"""The data of ResNet-50's workload: where AISBench's variables say that it lies, and what cannot be generated."""

from __future__ import annotations

from pathlib import Path

import pytest
from resnet_programs import RESNET, python
from resnet_programs import cifar as cifar

pytestmark = pytest.mark.timeout(600)

# How many images there are to train on and to evaluate, for each pair of AISBench's variables.
VARIABLES = """
import os, sys
import torch
from train import Settings, opened

for told in sys.argv[1:]:
    os.environ["TRAIN_DATA_PATH"], os.environ["EVAL_DATA_PATH"] = told.split(":")
    data = opened(Settings(), torch.device("cpu"))
    print(data.samples, data.validation)
os.environ["EVAL_DATA_PATH"] = "/nowhere"
print(opened(Settings(data_path=told.split("/train:")[0]), torch.device("cpu")).validation)
"""


def test_aisbench_variables_name_the_directories_of_both_parts(cifar: Path, tmp_path: Path) -> None:
    """Whatever they are called, in both layouts; a label that names the data wins over both."""
    python(RESNET / "generate.py", tmp_path / "data", "--train=12", "--val=7", "--classes=2")
    python(RESNET / "generate.py", tmp_path / "other", "--train=5", "--val=3", "--classes=2")
    python(RESNET / "generate.py", tmp_path / "tests", "--train=5", "--val=4", "--layout=cifar10")
    (tmp_path / "other/train").rename(tmp_path / "other/training")
    data, other = tmp_path / "data", tmp_path / "other"
    told = {
        f"{data}/train:{other}/val/": "12 3",
        f"{other}/training:{data}/val": "5 7",
        f"{other}/training:": "5 3",
        f"{data}:{other}/val": "12 3",
        f"{cifar}:{tmp_path}/tests": "203 4",
        f"{cifar}:": "203 101",
        f"{data}/train:": "12 7",
    }
    assert python("-c", VARIABLES, *told).splitlines() == [*told.values(), "7"]


# No file may become larger than this, as on a disk that is full.
FULL = """
import resource
import generate
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
generate.main()
"""


@pytest.mark.parametrize("layout", ["imagenet", "cifar10"])
def test_data_that_cannot_be_written_is_one_message_and_leaves_nothing_behind(tmp_path: Path, layout: str) -> None:
    said = python("-c", FULL, tmp_path / "data", f"--layout={layout}", code=2)
    assert f"{tmp_path}/data cannot be written: File too large. " in said
    assert not list(tmp_path.iterdir())

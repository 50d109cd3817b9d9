"""The labels of the workloads: what AISBench's users pass, files of the model zoo, and numbers that cannot be meant."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "workloads"))
from common import cpus, labels, places, schedule  # type: ignore[import-not-found,unused-ignore]
from common.labels import Common, Wrong  # type: ignore[import-not-found,unused-ignore]


@dataclass
class Settings(Common):  # type: ignore[misc,unused-ignore]
    """As BERT's."""

    bert_network: str = "large"
    optimizer: str = "lamb"
    learning_rate: float = 1.0
    warmup_steps: int = 0


# After the model zoo's own: sections, quoted values, comments, lists, help texts and choices behind it.
ZOO = """\
# Builtin Configurations
data_url: ""
data_path: "/cache/data"
epoch_size: 40
enable_save_ckpt: 'false'
train_steps: -1
save_checkpoint_steps: 500  # sometimes
num_samples: None   # is an option
batch_size: 32
bert_network: 'large_boost'
optimizer: 'Lamb'
schema_file: null
bucket_list: [128, 256]
AdamWeightDecay:
    learning_rate: 0.00003  # 3e-5
    decay_filter: ['layernorm', 'bias']

Lamb:
    learning_rate: 0.00035
    warmup_steps: 7
large_batch_size: 20
large_boost_batch_size: 24
large_boost_net_cfg:
    learning_rate: 9
---
epoch_size: "Epoch size, default is 1."
---
batch_size: [1, 2]
"""


def read(*words: str) -> tuple[dict[str, object], list[str]]:
    """What differs from the defaults, and what was said."""
    said: list[str] = []
    found = labels.read(Settings, words, said.append)
    return {name: value for name, value in vars(found).items() if value != getattr(Settings, name)}, said


@pytest.fixture
def zoo(tmp_path: Path) -> str:
    path = tmp_path / "pretrain_config.yaml"
    path.write_text(ZOO)
    return str(path)


def test_a_file_of_the_model_zoo_gives_the_settings_of_its_network_and_optimizer(zoo: str) -> None:
    found, said = read(f"--config_path={zoo}")
    assert found == {
        "config_path": zoo,
        "epoch_size": 40,
        "save_checkpoint": False,
        "save_checkpoint_steps": 500,
        "batch_size": 24,
        "bert_network": "large_boost",
        "optimizer": "Lamb",
        "learning_rate": 0.00035,
        "warmup_steps": 7,
    }
    assert said == ["label bucket_list has no meaning here"]


def test_labels_win_over_the_file_and_choose_its_sections(zoo: str) -> None:
    found, _ = read(f"--config_path={zoo}", "--bert_network=large", "--optimizer=AdamWeightDecay", "--epoch_size=3")
    assert (found["batch_size"], found["learning_rate"], found["epoch_size"]) == (20, 0.00003, 3)
    assert "warmup_steps" not in found


def test_a_file_that_is_not_there_is_looked_for_beside_the_program(zoo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the model zoo's own programs do, whose packages say `../../pretrain_config.yaml`."""
    assert read("--config_path=../../pretrain_config.yaml")[1] == [
        "config_path names ../../pretrain_config.yaml, which is not here: it is passed over"
    ]
    monkeypatch.setattr(sys, "argv", [str(Path(zoo).parent / "train.py")])
    found, said = read("--config_path=../../pretrain_config.yaml")
    assert found["batch_size"] == 24 and said == ["label bucket_list has no meaning here"]


def test_a_wrong_value_in_the_file_is_told_with_its_place(zoo: str) -> None:
    Path(zoo).write_text("epoch_size: many\n")
    with pytest.raises(Wrong, match=f"^{zoo}: Label epoch_size is `many`. It takes a whole number.$"):
        read(f"--config_path={zoo}")


def test_variables_of_aisbench_are_taken_where_no_label_says_otherwise(zoo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCH_SIZE", "5")
    monkeypatch.setenv("TRAIN_STEPS", "12000")
    found, _ = read(f"--config_path={zoo}", "--train_steps=7")
    assert (found["epoch_size"], found["train_steps"]) == (5, 7)


def test_data_lies_where_aisbench_says_unless_a_label_names_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "words"):
        (tmp_path / name).mkdir()
    for told, expected in (("train", tmp_path), ("train/", tmp_path), ("words/", tmp_path / "words")):
        monkeypatch.setenv("TRAIN_DATA_PATH", f"{tmp_path}/{told}")
        assert places.data(Settings()) == expected
    assert places.data(Settings(data_path=f"{tmp_path}/train")) == tmp_path / "train"
    with pytest.raises(Wrong, match=r"^There is no directory `/nowhere` with data\. "):
        places.data(Settings(data_path="/nowhere"))


def test_labels_without_a_meaning_are_said_once_and_the_last_of_several_counts() -> None:
    found, said = read("--device_num=8", "--device_num=4", "--data-sink-steps", "100", "--train_steps=-1", "--batch_size", "6")
    assert found == {"batch_size": 6}
    assert said == ["label device_num has no meaning here", "label data_sink_steps has no meaning here"]


def test_labels_of_a_file_that_have_no_meaning_are_said_once_like_those_of_the_command_line(zoo: str) -> None:
    Path(zoo).write_text("net_name: resnet152\npre_trained: x\nbert_network: large\nlarge_batch_size: 20\nepoch_size: 3\n")
    found, said = read(f"--config_path={zoo}", "--net_name=resnet50", "--large_batch_size=9")
    assert (found["epoch_size"], found["batch_size"]) == (3, 20)
    assert said == [f"label {name} has no meaning here" for name in ("pre_trained", "net_name", "large_batch_size")]


def test_a_global_batch_decides_how_often_gradients_are_accumulated_and_says_so() -> None:
    assert read("--global_batch=64", "--accumulation_steps=3")[1] == [
        "label accumulation_steps is passed over, since global_batch decides"
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--batch_size=0", "Label batch_size is 0. It takes a number from 1 on."),
        ("--accumulation_steps=-1", "Label accumulation_steps is -1. It takes a number from 1 on."),
        ("--log_steps=-5", "Label log_steps is -5. It takes a number from 0 on."),
        ("--timer_warmup=-2", "Label timer_warmup is -2. It takes a number from -1 on."),
        ("--seed=4294967296", "Label seed is 4294967296. It takes a number from 0 to 4,294,967,295."),
        ("--learning_rate=-1", "Label learning_rate is -1.0. It takes a number from 0 on."),
        ("--learning_rate=nan", "Label learning_rate is nan. It takes a number."),
        ("--batch_size=1.5", "Label batch_size is `1.5`. It takes a whole number."),
        ("--do_shuffle=maybe", "Label do_shuffle is `maybe`. It takes true or false."),
        ("--epochsize=5", "There is no label `epochsize`. Did you mean `epoch_size`?"),
        ("steps=5", "`steps=5` is no label. Labels are written --name=value."),
    ],
)
def test_what_cannot_be_meant_is_one_message(word: str, message: str) -> None:
    with pytest.raises(Wrong) as wrong:
        read(word)
    assert str(wrong.value) == message


@pytest.mark.parametrize(
    "words, told, steps, untimed",
    [
        ([], "", 60, 6),
        ([], "0", 1000, 20),  # as of a job file without `warmup`
        ([], "5", 1000, 5),
        (["--timer_warmup=7"], "5", 1000, 7),
        (["--timer_warmup=0"], "", 1000, 0),
        ([], "", 9, 0),
    ],
)
def test_steps_that_compile_are_left_out_of_the_throughput_also_where_nobody_says_so(
    words: list[str], told: str, steps: int, untimed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_WARMUP", told)
    assert schedule.untimed(labels.read(Common, words, print), steps) == untimed


def test_a_container_has_as_many_cpus_as_it_has_time(tmp_path: Path) -> None:
    def quota(**files: str) -> float:
        for name, text in files.items():
            place = tmp_path / name.replace("__", "/").replace("_max", ".max").replace("cpu_cfs", "cpu.cfs")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return float(cpus.quota(str(tmp_path), str(tmp_path / "own")))

    assert quota() == math.inf
    assert quota(own="1:cpu:/\n0::/slurm/job\n", slurm__job__cpu_max="max 100000\n") == math.inf
    assert quota(cpu__cpu_cfs_quota_us="-1\n", cpu__cpu_cfs_period_us="100000\n") == math.inf
    assert quota(slurm__cpu_max="350000 100000\n") == 3.5
    assert quota(cpu__cpu_cfs_quota_us="200000\n") == 2.0
    assert quota(cpu_max="100000 100000\n") == 1.0

"""BERT's training: it learns, alike with any number of ranks, goes on after a kill as if nothing had been, knows its labels."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from bert_programs import BERT, programs, run, start, train, trainings
from bert_programs import data as data

from conftest import Muster

pytestmark = pytest.mark.timeout(300)
SHORT = ["--batch_size=16", "--train_steps=30", "--save_checkpoint_steps=10", "--save_checkpoint_num=9", "--log_steps=10"]
# What AISBench's packages pass, after its reference; train_steps and paths apart.
AISBENCH = {
    "config_path": "../../pretrain_config_Ascend_Boost.yaml",
    "enable_modelarts": "True",
    "distribute": "true",
    "epoch_size": "5",
    "enable_save_ckpt": "true",
    "enable_lossscale": "true",
    "do_shuffle": "true",
    "enable_data_sink": "true",
    "data_sink_steps": "100",
    "accumulation_steps": "1",
    "save_checkpoint_num": "1",
    "device_num": "8",
}

ZOO = """
train_steps: -1
batch_size: 128 # half of the data
optimizer: 'Lamb'
Lamb:
    eps: 0.000001
---
seed: "Help text"
"""


def test_one_rank_and_four_learn_the_same_to_the_stated_accuracy(muster: Muster) -> None:
    path = f"{programs('pytorch')}:/usr/bin:/bin"
    results = {}
    for ranks in (1, 4):
        told = muster("bench", BERT / "small.yaml", "--set", f"devices={ranks}", "--json", PATH=path, timeout=280)
        result = json.loads(told.stdout)
        assert result["verdict"]["passed"], result["verdict"]
        assert result["metrics"]["throughput"]["value"] > 0
        assert 0 <= result["metrics"]["input_wait"]["value"] <= 1
        results[ranks] = result["metrics"]["accuracy"]["value"]
    assert results[1] >= 0.9 and results[4] == pytest.approx(results[1], abs=0.005)


SAME = """
import sys, torch
one, other = (torch.load(f"{folder}/checkpoints/checkpoint-000000030.pt", weights_only=True) for folder in sys.argv[1:])
assert len(one["model"]) == 38
for name, weight in one["model"].items():
    assert torch.equal(weight, other["model"][name]), name
"""


# Killed with the second checkpoint on the disk, but not yet under its name.
KILLED = """
import os, signal, train
from common import labels
synchronise, done = os.fsync, []
def fsync(descriptor):
    synchronise(descriptor)
    done.append(descriptor)
    if len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
labels.run(train.main)
"""


def test_a_training_that_was_killed_while_it_saved_ends_as_one_that_was_not(data: Path, tmp_path: Path) -> None:
    """Dropout included: the random numbers go on, too."""
    words = [f"--data_path={data}", *SHORT, "--dropout=0.1", "--attention_dropout=0.1"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(whole, *words)
    process = start(killed, *words, program=["-c", KILLED])
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = [path.name for path in (killed / "checkpoints").iterdir()]
    assert len(left) == 2 and [name for name in left if name.endswith(".pt")] == ["checkpoint-000000010.pt"]
    assert "goes on after step 10 of checkpoints/checkpoint-000000010.pt\n" in train(killed, *words)
    run("pytorch", "-c", SAME, whole, killed)


def test_sigterm_saves_and_ends_with_143(data: Path, tmp_path: Path) -> None:
    words = [f"--data_path={data}", "--batch_size=16", "--train_steps=1000000", "--log_steps=5"]
    process = start(tmp_path / "run", *words)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 5:"):
            process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    process.stdout.close()
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == 1


def losses(said: str) -> list[float]:
    return [float(line.split()[3]) for line in said.splitlines() if ": loss " in line]


def test_layouts_and_precisions_learn_the_same(data: Path, tmp_path: Path) -> None:
    words = [f"--data_path={data}", "--batch_size=16", "--train_steps=40", "--log_steps=20"]
    variants = (["--layout=packed"], ["--precision=bf16"], ["--precision=bf16", "--masters=optimizer"])
    codes, said = zip(*trainings(tmp_path, words, *([*words, *own] for own in variants)), strict=True)
    assert codes == (0,) * 4
    plain, packed, *others = map(losses, said)
    assert plain[1] < plain[0] < 6.5 and packed == pytest.approx(plain, rel=1e-4)
    assert all(other == pytest.approx(plain, rel=0.01) and other != plain for other in others)


def test_labels_of_aisbench_are_understood_and_wrong_ones_end_with_2(data: Path, tmp_path: Path) -> None:
    passed = [f"--{label}={value}" for label, value in AISBENCH.items()]
    own = [f"--data_url={data}", "--train_steps=3", "--save_checkpoint_steps=3", "--batch_size=8"]
    wrong = {
        "--bert_netwrok=tiny": "There is no label `bert_netwrok`. Did you mean `bert_network`?\n",
        "--bert_network=nezha": "Label bert_network is `nezha`. It takes large, base, tiny, large_acc or large_boost.\n",
        "--synthetic": "Random sequences have no end. Say how long to train with --train_steps.\n",
    }
    zoo = tmp_path / "pretrain_config.yaml"
    zoo.write_text(ZOO)
    file = [f"--data_dir={data}", f"--config_path={zoo}", "--schema_dir=", "--log_steps=1"]
    (code, said), (zoo_code, zoo_said), *refused = trainings(tmp_path, [*passed, *own], file, *([label] for label in wrong))
    assert code == 0 and zoo_code == 0
    assert "label schema_dir has no meaning here\n" in zoo_said and "step 2: accuracy" in zoo_said  # one epoch
    assert "config_path names ../../pretrain_config_Ascend_Boost.yaml, which is not here: it is passed over\n" in said
    assert "label data_sink_steps has no meaning here\n" in said
    assert "ms_bert_large.ckpt (MindSpore's names): 38 weights taken\n" in said
    assert "step 3: accuracy " in said
    assert (tmp_path / "0/checkpoints/checkpoint-000000003.pt").exists()
    assert refused == [(2, text) for text in wrong.values()]


def test_an_aisbench_package_of_it_is_imported_and_trains(data: Path, muster: Muster, tmp_path: Path) -> None:
    """As AISBench's users have it: data in a store, a ModelArts job with their labels, ranks named as MindSpore's are."""
    assert muster("pack", "bert-large", "--version", "r1.3", "--type", "modelarts", "-o", tmp_path).returncode == 0
    subprocess.run(["tar", "xf", next(tmp_path.glob("*.tar.gz"))], cwd=tmp_path, check=True)
    package = next(tmp_path.glob("train_huawei_bert*/"))
    assert muster("import", "--here", package, "-o", tmp_path / "job.yaml").returncode == 0
    assert muster("cp", f"{data}/", "obs://aisbench/bert/").returncode == 0
    python, small = f"{programs('pytorch')}/python", {"bert_network": "tiny", "train_steps": 4, "batch_size": 8}
    words = [word for name, value in small.items() for word in ("--set", f"parameters.{name}={value}")]
    words += ["--set", "devices=2", "--set", "device=cpu", "--set", f"python={python}", "--set", "env.OMP_NUM_THREADS=1"]
    result = json.loads(muster("bench", tmp_path / "job.yaml", *words, "--json", timeout=280).stdout)
    assert result["verdict"]["passed"], result["verdict"]
    assert 0 <= result["metrics"]["accuracy"]["value"] <= 1


def test_random_sequences_need_no_data_and_lamb_trains_on_them(tmp_path: Path) -> None:
    words = ["--synthetic", "--seq_length=32", "--batch_size=4", "--train_steps=60", "--log_steps=20", "--learning_rate=0.01"]
    ((code, said),) = trainings(tmp_path, [*words, "--optimizer=Lamb"])
    found = losses(said)
    assert code == 0 and "samples/s" in said and "accuracy" not in said
    assert found[2] < found[0] - 0.2  # four batches take turns, and can be learned by heart

"""BERT's training: it learns, alike with any number of ranks, goes on after a kill as if nothing had been, knows its labels."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from bert_programs import BERT, programs, ranks, run, start, trainings
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
    for devices in (1, 4):
        told = muster("bench", BERT / "small.yaml", "--set", f"devices={devices}", "--json", PATH=path, timeout=280)
        result = json.loads(told.stdout)
        assert result["verdict"]["passed"], result["verdict"]
        assert result["metrics"]["throughput"]["value"] > 0
        assert 0 <= result["metrics"]["input_wait"]["value"] <= 1
        results[devices] = result["metrics"]["accuracy"]["value"]
    assert results[1] >= 0.9 and results[4] == pytest.approx(results[1], abs=0.005)


def test_lamb_learns_to_the_stated_accuracy(tmp_path: Path) -> None:
    """The data and steps of `small`, with another optimizer."""
    words = ["--generate", f"--data_path={tmp_path}/data", "--train_steps=150", "--global_batch=64", "--batch_size=16"]
    words += ["--optimizer=lamb", "--learning_rate=0.05", "--warmup_steps=20", "--power=1", "--weight_decay=0.01"]
    ((code, said),) = trainings(tmp_path, [*words, "--beta1=0.9", "--beta2=0.999"])
    assert code == 0 and accuracy(said) >= 0.9


SAME = """
import sys, torch
name, tolerance, *folders = sys.argv[1:]
one, other = (torch.load(f"{folder}/{name}", weights_only=True) for folder in folders)
assert len(one["model"]) == 38
for name, weight in one["model"].items():
    torch.testing.assert_close(weight, other["model"][name], rtol=0, atol=float(tolerance), msg=lambda text: f"{name}: {text}")
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
    process = start(tmp_path, *words, f"--train_url={killed}", program=["-c", KILLED])
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = [path.name for path in killed.iterdir()]
    assert len(left) == 2 and [name for name in left if name.endswith(".pt")] == ["checkpoint-000000010.pt"]
    (_, _), (code, said) = trainings(tmp_path, *([*words, f"--train_url={folder}"] for folder in (whole, killed)))
    assert code == 0 and f"goes on after step 10 of {killed}/checkpoint-000000010.pt\n" in said
    run("pytorch", "-c", SAME, "checkpoint-000000030.pt", "0", whole, killed)


def test_a_training_goes_on_with_another_number_of_ranks_as_if_nothing_had_been(data: Path, tmp_path: Path) -> None:
    """The same global batches; 100 sequences to evaluate with are 34, 33 and 33 for three ranks."""
    words = [f"--data_path={data}", "--batch_size=16", "--global_batch=48", "--train_steps=30", "--save_checkpoint_steps=10"]
    words += ["--save_checkpoint_num=9", "--optimizer=lamb", "--learning_rate=0.02"]
    one, three = tmp_path / "one", tmp_path / "three"
    ((code, said),) = trainings(tmp_path, [*words, f"--train_url={one}"])
    assert code == 0
    three.mkdir()
    shutil.copy(one / "checkpoint-000000010.pt", three)
    ended = ranks(three, 3, *words)
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert f"goes on after step 10 of {three}/checkpoint-000000010.pt\n" in ended[0][1]
    run("pytorch", "-c", SAME, "checkpoint-000000030.pt", "1e-4", one, three)
    assert accuracy(ended[0][1]) == pytest.approx(accuracy(said), abs=0.003)


def accuracy(said: str) -> float:
    return float(said.split("accuracy ")[1].split()[0])


# No file may become larger than this, as on a disk that is full.
FULL = """
import resource, train
from common import labels
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
labels.run(train.main)
"""


def test_checkpoints_that_cannot_be_used_or_written_are_one_message(data: Path, tmp_path: Path) -> None:
    words = [f"--data_path={data}", "--batch_size=16", "--train_steps=4", "--save_checkpoint_steps=2"]
    made, file = tmp_path / "made", tmp_path / "file"
    file.touch()
    each = [
        [*words, f"--train_url={made}"],
        [*words, f"--train_url={made}", "--optimizer=lamb"],
        [*words, f"--train_url={file}"],
    ]
    (code, _), (other, of_other), (nowhere, of_nowhere) = trainings(tmp_path, *each)
    assert (code, other, nowhere) == (0, 2, 2)
    assert of_other.splitlines()[-1].startswith(
        f"{made}/checkpoint-000000004.pt is the checkpoint of another network or optimizer. "
    )
    assert of_nowhere.splitlines()[-1].startswith(f"Checkpoints cannot be written to {file}: File exists. ")
    full = tmp_path / "full"
    for code, said in ranks(full, 2, *words, program=["-c", FULL]):
        assert code == 2 and said.splitlines()[-1].startswith(
            f"{full}/checkpoint-000000002.pt cannot be written: File too large. "
        )
    assert not list(full.glob("checkpoint-*"))


def test_data_that_cannot_be_made_is_one_message_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "full"
    for code, said in ranks(tmp_path / "logs", 2, "--generate", f"--data_path={place}/data", program=["-c", FULL]):
        assert code == 2 and said.splitlines() == [
            f"Data cannot be made in {place}/data: File too large. Make room, or name another directory."
        ]
    assert not list(place.iterdir())
    ((code, said),) = trainings(tmp_path, ["--generate"])
    assert code == 2 and said.startswith("Data is to be made, and nothing says where. ")


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
    words = [f"--data_path={data}", "--batch_size=16", "--train_steps=20", "--log_steps=10"]
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
        "--beta1=1": "Label beta1 is 1.0. It takes a number from 0 to less than 1.\n",
        "--seq_length=0": "Label seq_length is 0. It takes a number from 1 on.\n",
        "--clip=-1": "Label clip is -1.0. It takes a number from 0 on.\n",
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
    words += ["--data_url=obs://nowhere/data"]  # nobody asks for it
    wrong = {
        "seq_length=65": "Sequences have 65 tokens, and the network 64 positions. Take another with --bert_network.",
        "max_predictions_per_seq=33": "Label max_predictions_per_seq is 33. It takes a number up to seq_length, which is 32.",
    }
    (code, said), *refused = trainings(tmp_path, [*words, "--optimizer=Lamb"], *([*words, f"--{label}"] for label in wrong))
    assert refused == [(2, f"{text}\n") for text in wrong.values()]
    found = losses(said)
    assert code == 0 and "samples/s" in said and "accuracy" not in said
    assert found[2] < found[0] - 0.2  # four batches take turns, and can be learned by heart

"""ResNet-50's training when it is killed, stopped, or cut into other numbers of ranks: the result stays the same."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from resnet_programs import RESNET, evaluation, python, start, train
from resnet_programs import cifar as cifar

from conftest import until

pytestmark = pytest.mark.timeout(600)
STEPS = "--train_steps=14"
SAME = """
import sys, torch
one, other = (torch.load(path, weights_only=True) for path in sys.argv[1:])
assert one["step"] == other["step"], (one["step"], other["step"])
for name, value in one["model"].items():
    assert torch.equal(value, other["model"][name]), name
for one_state, other_state in zip(one["optimizer"]["inner"]["state"].values(), other["optimizer"]["inner"]["state"].values()):
    assert torch.equal(one_state["momentum_buffer"], other_state["momentum_buffer"])
"""

# How far the weights of others lie from those of the first, as a part of their size.
APART = """
import sys, torch
one, *others = (torch.load(path, weights_only=True)["model"] for path in sys.argv[1:])
flat = lambda model: torch.cat([value.flatten().float() for name, value in model.items() if "num_batches" not in name])
print(*(((flat(one) - flat(other)).norm() / flat(one).norm()).item() for other in others))
"""


def test_a_training_that_is_killed_goes_on_as_if_nothing_had_happened(cifar: Path, tmp_path: Path) -> None:
    words = (STEPS, "--save_checkpoint_steps=4", "--save_checkpoint_num=2", f"--data_path={cifar}")
    whole = train(tmp_path / "whole", *words)
    killed = tmp_path / "killed"
    with start(killed, *words) as (process,):
        until(lambda: list(killed.glob("checkpoint-*8.pt")), 300)
        process.kill()
    (killed / "checkpoint-000000013.pt").write_bytes(b"half of a checkpoint")
    said = train(killed, *words)
    assert "checkpoint-000000013.pt cannot be read and is passed over" in said and "goes on after step" in said
    assert evaluation(said) == evaluation(whole)
    python("-c", SAME, *(tmp_path / name / "checkpoint-000000014.pt" for name in ("whole", "killed")))
    assert not list(killed.glob("*.tmp*"))


def test_a_training_that_has_nothing_left_to_train_tells_what_it_measured(
    cifar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for attempt in ("first", "second"):
        (tmp_path / attempt).mkdir()
        monkeypatch.setenv("MUSTER_RESULTS", str(tmp_path / attempt))
        said = train(tmp_path / "run", STEPS, "--timer_warmup=2", f"--data_path={cifar}", ranks=2)
        lines = [
            json.loads(line) for rank in "01" for line in (tmp_path / attempt / f"record-{rank}.jsonl").read_text().splitlines()
        ]
        told.append({(line["rank"], line["name"]): line["value"] for line in lines if line["kind"] == "metric"})
    names = {(rank, name) for rank in (0, 1) for name in ("throughput", "input_wait")} | {
        (0, "accuracy"),
        (0, "eval_loss"),
        (0, "seed"),
    }
    assert set(told[1]) == names and "no step was timed" not in said
    assert all(told[1][name] == told[0][name] for name in names)


def test_sigterm_to_one_rank_stops_all_after_the_same_step_and_the_next_start_goes_on(cifar: Path, tmp_path: Path) -> None:
    words = (f"--data_path={cifar}", "--train_steps=100000")
    with start(tmp_path / "stopped", *words, ranks=2) as processes:
        until(lambda: "step 3:" in (tmp_path / "stopped/rank-0.log").read_text(), 300)
        processes[1].send_signal(signal.SIGTERM)
        assert [process.wait() for process in processes] == [143, 143]
    (saved,) = (tmp_path / "stopped").glob("checkpoint-*.pt")
    step = int(saved.stem.rpartition("-")[2])
    said = train(tmp_path / "stopped", f"--data_path={cifar}", f"--train_steps={step + 2}")  # with another number of ranks
    assert f"stopped after step {step:,}" in said and f"goes on after step {step:,}" in said
    assert f"step {step + 2:,}: accuracy" in said


def test_sigterm_to_the_whole_group_in_an_evaluation_leaves_it_its_decoders(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "stopped"
    python(RESNET / "generate.py", data, "--train=32", "--val=1500", "--size=56")
    words = (f"--data_path={data}", "--train_steps=100000", "--eval_steps=1", "--image_size=48", "--workers=2")
    with start(folder, *words) as (process,):
        until(lambda: "step 2: loss" in (folder / "rank-0.log").read_text(), 300)  # its evaluation is next, and takes longest
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait() == 143, (folder / "rank-0.log").read_text()
    (saved,) = folder.glob("checkpoint-*.pt")
    step = int(saved.stem.rpartition("-")[2])
    assert f"stopped after step {step}; a checkpoint is saved" in (folder / "rank-0.log").read_text()


def test_the_number_of_ranks_does_not_change_the_result(cifar: Path, tmp_path: Path) -> None:
    words = ("--train_steps=6", f"--data_path={cifar}", "--lr_max=0.1")
    accuracy, loss = evaluation(train(tmp_path / "one", *words))
    accuracies, losses = evaluation(train(tmp_path / "two", *words, ranks=2))
    assert abs(accuracy - accuracies) < 0.015 and abs(loss - losses) < 1e-3
    train(tmp_path / "other", *words, "--seed=2")
    paths = [tmp_path / name / "checkpoint-000000006.pt" for name in ("one", "two", "other")]
    near, far = map(float, python("-c", APART, *paths).split())
    assert near < 0.002 < 0.2 < far

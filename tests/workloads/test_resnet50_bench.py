"""ResNet-50's `small` job under `muster bench`: it learns what its README says, with 1 rank and with 4."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from resnet_programs import RESNET, pytorch

from conftest import Muster

pytestmark = pytest.mark.timeout(600)


def test_small_reaches_its_accuracy_with_one_rank_and_with_four(muster: Muster) -> None:
    path = f"{pytorch()}:{os.environ['PATH']}"
    results = []
    for ranks in (1, 4):
        done = muster("bench", RESNET / "small.yaml", "--json", "--set", f"devices={ranks}", PATH=path, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr
        results.append(json.loads(done.stdout))
    for result in results:
        assert result["verdict"]["passed"], result["verdict"]  # its target is an accuracy of 0.9
        told = {name: metric["value"] for name, metric in result["metrics"].items()}
        assert told["throughput"] > 0 and 0 <= told["input_wait"] < 1 and told["seed"] == 1
        assert 0 < told["eval_loss"] < told["loss"] < 3  # smoothed labels keep the loss of the training up
    accuracies = [result["metrics"]["accuracy"]["value"] for result in results]
    assert abs(accuracies[0] - accuracies[1]) <= 0.04


def test_servers_of_an_imported_configuration_train_alone(muster: Muster, home: Path) -> None:
    """AISBench's SINGLESERVER_MODE leaves it to the script to make a world of every server; both nodes make the data."""
    short = {"generate": 100, "train_steps": 6, "log_steps": 1, "save_checkpoint_steps": 6}
    words = [f"--set=parameters.{name}={value}" for name, value in short.items()]
    words += ["--set=nodes=2", "--set=devices=2", "--set=bench.scope=server", "--set=env.SINGLESERVER_MODE=True"]
    words += ["--set=bench.targets.accuracy=0"]
    path = f"{pytorch()}:{os.environ['PATH']}"
    done = muster("bench", RESNET / "small.yaml", "--json", *words, PATH=path, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    metrics = json.loads(done.stdout)["runs"][0]["metrics"]
    accuracies = [node["value"] for node in metrics["accuracy"]["nodes"]]
    assert accuracies[0] == accuracies[1] is not None  # the same training twice
    assert all(node["value"] > 0 for node in metrics["throughput"]["nodes"])
    (run,) = (home / "runs").iterdir()
    assert {path.parent.name for path in run.glob("shared/*/checkpoint-000000006.pt")} == {"checkpoints-0", "checkpoints-1"}

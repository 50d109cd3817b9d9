"""The examples on real frameworks: each ends at a number that only averaged gradients give, and fails without them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from behaviour import no_namespaces
from conftest import Muster

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "scripts" / "frameworks" / "install.py"
CANNOT_BE_HAD = 3  # what the installer's check exits with where there is no Python old enough
NUMBER = r"(-?\d+\.\d+)"
REPORT = re.compile(rf"(?:rank|worker) (\d+) of 4: weight {NUMBER}, expected {NUMBER}, alone {NUMBER}")

pytestmark = pytest.mark.timeout(300)

# Each example with its framework, and an edit after which its gradients are not averaged.
EXAMPLES = {
    "pytorch-ddp": ("pytorch", "DistributedDataParallel(layer)", "layer"),
    "tensorflow-multiworker": ("tensorflow", "BATCH * strategy.num_replicas_in_sync", "BATCH"),
    "mindspore-modelarts": ("mindspore", "gradients_mean=True", "gradients_mean=False"),
    "paddle-direct": ("paddle", "paddle.DataParallel(layer)", "layer"),
    "paddle-modelarts": ("paddle", "paddle.DataParallel(layer)", "layer"),
    "horovod-pytorch": ("horovod", "hvd.DistributedOptimizer(", "(lambda own, **_: own)("),
    "mpi": ("mpi", "comm.Allreduce(gradient, average, op=MPI.SUM)", "average = comm.size * gradient"),
}


@dataclass(frozen=True)
class Outcome:
    """How a run of an example ended, and what its ranks reported: weight, expected, alone."""

    state: str
    reason: str
    reports: dict[int, tuple[float, ...]]


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def programs() -> Callable[[str], str]:
    """The directory of a framework's programs; without it a test is skipped, or fails where CI could have installed it."""
    environ = dict(os.environ)

    def find(name: str) -> str:
        found = subprocess.run([sys.executable, INSTALL, "--check", name], capture_output=True, text=True, env=environ)
        if found.returncode:
            skip = found.returncode == CANNOT_BE_HAD or not environ.get("CI")
            (pytest.skip if skip else pytest.fail)(found.stderr.strip())
        return found.stdout.strip()

    return find


@pytest.fixture
def run(muster: Muster, programs: Callable[[str], str], tmp_path: Path) -> Run:
    """Runs an example, or a copy of it, with its framework's environment active."""

    def call(example: str, folder: Path = ROOT / "examples") -> Outcome:
        path = f"{programs(EXAMPLES[example][0])}:{os.environ['PATH']}"
        if (make_data := folder / example / "make_data.py").exists():
            subprocess.run([sys.executable, make_data, tmp_path / "points"], check=True)
            assert muster("cp", tmp_path / "points", "obs://ms-dataset/points").returncode == 0
        view = json.loads(muster("run", folder / example / "job.yaml", "--json", PATH=path, timeout=280).stdout)
        assert view["warnings"] == [], "all of them train together"
        logs = [log.read_text() for log in Path(view["dir"]).glob("attempts/1/nodes/*/logs/*.log")]
        reports = [found.groups() for log in logs for found in REPORT.finditer(log)]
        return Outcome(view["state"], view["reason"], {int(rank): (*map(float, numbers),) for rank, *numbers in reports})

    return call


@pytest.mark.parametrize("example", EXAMPLES)
def test_all_ranks_reach_what_only_averaged_gradients_give(example: str, run: Run, home: Path) -> None:
    outcome = run(example)
    assert outcome.state == "succeeded", outcome.reason
    shown = [0, 2] if example == "paddle-modelarts" else [0, 1, 2, 3]  # Paddle's launcher shows a node's first rank
    assert sorted(outcome.reports) == shown
    weights, expected, alone = zip(*outcome.reports.values(), strict=True)
    assert weights == pytest.approx([expected[0]] * len(shown), abs=1e-3)
    assert min(abs(weights[0] - own) for own in alone) > 0.1
    if example == "mindspore-modelarts":
        assert (home / "store/ms-train/output/model.ckpt").stat().st_size > 0


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_fails_when_its_gradients_are_not_averaged(example: str, run: Run, tmp_path: Path) -> None:
    _, exchange, nothing = EXAMPLES[example]
    copy = tmp_path / "copies" / example
    shutil.copytree(ROOT / "examples" / example, copy)
    script = copy / "train.py"
    assert exchange in script.read_text()
    script.write_text(script.read_text().replace(exchange, nothing))
    outcome = run(example, copy.parent)
    assert outcome.state == "failed"
    assert outcome.reports
    assert all(abs(weight - expected) > 0.1 for weight, expected, _ in outcome.reports.values())


GUIDED = """
compat: apulis
nodes: 2
devices: 2
command: >-
  horovodrun -np 4 -hostfile /home/${DLWS_USER_NAME}/ib_config -p $DLWS_SD_worker0_SSH_PORT
  --network-interface lo python train.py && sleep infinity
"""


def test_the_horovodrun_line_of_the_apulis_guide_works_as_typed(run: Run, tmp_path: Path) -> None:
    """With fewer ranks than there, and an interface that exists here."""
    if reason := no_namespaces():
        pytest.skip(f"the line names a fixed path, which takes namespaces: {reason}")
    copy = tmp_path / "copies" / "horovod-pytorch"
    shutil.copytree(ROOT / "examples" / "horovod-pytorch", copy)
    (copy / "job.yaml").write_text(GUIDED)
    outcome = run("horovod-pytorch", copy.parent)
    assert outcome.state == "succeeded", outcome.reason
    assert sorted(outcome.reports) == [0, 1, 2, 3]
    assert all(weight == pytest.approx(expected, abs=1e-3) for weight, expected, _ in outcome.reports.values())

"""What the tests of workloads/resnet50 share: PyTorch's Python, and programs and ranks that are run with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from s3_server import free_port

ROOT = Path(__file__).parents[2]
RESNET = ROOT / "workloads" / "resnet50"
INSTALL = ROOT / "scripts" / "frameworks" / "install.py"
# Threads of one small image wait for each other, and on a busy machine for very long.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{RESNET}:{ROOT / 'workloads'}:{ROOT / 'src'}", "PYTHONUNBUFFERED": "1"}
TINY = ["--depth=14", "--width=4", "--batch_size=8", "--global_batch=16", "--warmup_epochs=0.2", "--log_steps=1"]


def pytorch() -> str:
    """The directory of PyTorch's programs; without it a test is skipped, or fails where CI has installed it."""
    found = subprocess.run([sys.executable, INSTALL, "--check", "pytorch"], capture_output=True, text=True)
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip())
    return found.stdout.strip()


def python(*words: object, code: int = 0, cwd: Path | None = None) -> str:
    """What a program printed on both streams; it ends with the code that is expected."""
    argv = [f"{pytorch()}/python", *map(str, words)]
    done = subprocess.run(argv, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def start(folder: Path, *words: object, ranks: int = 1) -> Iterator[list[subprocess.Popen[str]]]:
    """The ranks of a training with its checkpoints in a folder; what they say goes to files there, and none is left behind."""
    folder.mkdir(exist_ok=True)
    shared = {**os.environ, **ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    argv = [f"{pytorch()}/python", str(RESNET / "train.py"), *TINY, f"--train_url={folder}", *map(str, words)]
    processes = []
    for rank in range(ranks):
        places = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "GLOO_SOCKET_IFNAME": "lo"}
        with open(folder / f"rank-{rank}.log", "a") as log:
            env = {**shared, **places}
            processes.append(
                subprocess.Popen(argv, env=env, stdout=log, stderr=log, text=True, cwd=folder, start_new_session=True)
            )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def train(folder: Path, *words: object, ranks: int = 1, code: int = 0) -> str:
    """The same to its end; returns what rank 0 said."""
    with start(folder, *words, ranks=ranks) as processes:
        codes = [process.wait() for process in processes]
    said = (folder / "rank-0.log").read_text()
    assert codes == [code] * ranks, said
    return said


def evaluation(said: str) -> tuple[float, float]:
    """The last accuracy and loss over the validation set that a training told."""
    accuracy, loss = re.findall(r"accuracy (\d\.\d+), eval_loss (\d+\.\d+)", said)[-1]
    return float(accuracy), float(loss)


@pytest.fixture(scope="session")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10's files with few images; their number is no multiple of anything."""
    folder = tmp_path_factory.mktemp("resnet") / "cifar"
    python(RESNET / "generate.py", folder, "--layout=cifar10", "--train=203", "--val=101")
    return folder

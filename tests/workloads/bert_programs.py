"""What the tests of workloads/bert-large share: the Python of a framework, and programs run with it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from s3_server import free_port

ROOT = Path(__file__).parents[2]
BERT = ROOT / "workloads" / "bert-large"
INSTALL = ROOT / "scripts" / "frameworks" / "install.py"
# Threads of one small matrix wait for each other, and on a busy machine for very long.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{BERT}:{ROOT / 'workloads'}:{ROOT / 'src'}", "PYTHONUNBUFFERED": "1"}
TINY = ["--bert_network=tiny", "--dropout=0", "--attention_dropout=0", "--optimizer=adamw", "--learning_rate=3e-3"]


def programs(framework: str) -> str:
    """The directory of a framework's programs; without it a test is skipped, or fails where CI has installed it."""
    found = subprocess.run([sys.executable, INSTALL, "--check", framework], capture_output=True, text=True)
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(found.stderr.strip())
    return found.stdout.strip()


def run(framework: str, *words: str | Path) -> str:
    """What a Python program printed; it ends well."""
    argv = [f"{programs(framework)}/python", *map(str, words)]
    done = subprocess.run(argv, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def start(cwd: Path, *words: str, program: Sequence[str] = (str(BERT / "train.py"),)) -> subprocess.Popen[str]:
    """BERT's training in a directory of its own; its output is a pipe."""
    argv = [f"{programs('pytorch')}/python", *program, *TINY, *words]
    environment = {**os.environ, **ENVIRONMENT}
    cwd.mkdir(exist_ok=True)
    return subprocess.Popen(argv, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ranks(folder: Path, count: int, *words: str, program: Sequence[str] = (str(BERT / "train.py"),)) -> list[tuple[int, str]]:
    """A training of several ranks with its checkpoints in a folder: the exit code of each and what it said."""
    folder.mkdir(exist_ok=True)
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count), "GLOO_SOCKET_IFNAME": "lo"}
    argv = [f"{programs('pytorch')}/python", *program, *TINY, f"--train_url={folder}", *words]
    processes = []
    for rank in range(count):
        environment = {**os.environ, **ENVIRONMENT, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        with open(folder / f"rank-{rank}.log", "w") as log:
            processes.append(subprocess.Popen(argv, cwd=folder, env=environment, stdout=log, stderr=log))
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(code, (folder / f"rank-{rank}.log").read_text()) for rank, code in enumerate(codes)]


ONE_AFTER_THE_OTHER = """
import json, os, sys
import train
from common import labels
for number, words in enumerate(json.loads(sys.argv[1])):
    os.makedirs(str(number)), os.chdir(str(number))
    sys.argv[1:] = words
    print(f"=== {labels.outcome(train.main)}", flush=True)
    os.chdir("..")
"""


def trainings(cwd: Path, *each: list[str]) -> list[tuple[int, str]]:
    """Several trainings in one process, which spares loading PyTorch: the exit code of each and what it said."""
    words = json.dumps([[*TINY, *own] for own in each])
    argv = [f"{programs('pytorch')}/python", "-c", ONE_AFTER_THE_OTHER, words]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(argv, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    parts = re.findall(r"(.*?)^=== (\d+)\n", done.stdout, re.DOTALL | re.MULTILINE)
    return [(int(code), said) for said, code in parts]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generated data set."""
    folder = tmp_path_factory.mktemp("bert") / "data"
    run("pytorch", BERT / "generate.py", folder, "--train=256", "--val=100")
    return folder

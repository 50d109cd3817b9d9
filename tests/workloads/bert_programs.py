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


def train(cwd: Path, *words: str) -> str:
    """What it said to its end."""
    process = start(cwd, *words)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output


ONE_AFTER_THE_OTHER = """
import json, os, sys
import train
from common import labels
for number, words in enumerate(json.loads(sys.argv[1])):
    os.makedirs(str(number)), os.chdir(str(number))
    sys.argv[1:] = words
    try:
        labels.run(train.main)
    except SystemExit as ended:
        print(f"=== {ended.code}")
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

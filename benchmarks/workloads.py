"""Times the reference workloads on this machine's GPU beside what a user would write, and beside themselves under Muster."""

import argparse
import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.launch import api

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "workloads"
RATE = re.compile(r"^([\d,.]+) samples/s", re.MULTILINE)
STARTED = time.perf_counter()
SHORT = 10  # steps that compile, tune and capture
PEERS = {"resnet50": "torchvision", "bert-large": "transformers"}
PEER_COLUMNS = (("plain", 9), ("compiled", 10))
FILES = ("--layout=imagenet", "--classes=100", "--train=6000", "--val=256", "--size=440")  # about as large as ImageNet's


@dataclass(frozen=True)
class Case:
    """One workload at one size, with the throughput to aim for on an H200."""

    workload: str
    size: int
    batch: int
    aim: float
    labels: dict[str, str] = field(default_factory=dict)
    files: bool = False  # JPEG files instead of random numbers; nobody is timed beside it

    @property
    def name(self) -> str:
        return f"{self.workload} {self.size}{' JPEG' * self.files}"

    @property
    def job(self) -> Path:
        return WORKLOADS / self.workload / "one-gpu.yaml"

    @functools.cached_property
    def warmup(self) -> int:
        """Steps that the job leaves out of its timing."""
        bench = api.load(self.job, []).bench
        return bench.warmup if bench else 0

    def set(self, steps: int, labels: dict[str, str]) -> list[str]:
        """What of the job file is changed for this case."""
        files = {"dataset": "imagenet2012", "data_path": str(_files()), "class_num": "1000"} if self.files else {}
        chosen = {"batch_size": str(self.batch), "train_steps": str(steps), **self.labels, **files, **labels}
        return [f"parameters.{name}={value}" for name, value in chosen.items()]


CASES = [
    Case("resnet50", 224, 256, 7000.0),
    Case("resnet50", 224, 256, 7000.0, files=True),
    Case("bert-large", 512, 64, 400.0, {"seq_length": "512"}),
    Case("bert-large", 128, 256, 1800.0, {"seq_length": "128"}),
]


@dataclass(frozen=True)
class Bench:
    """What one measurement by Muster says."""

    throughput: float
    power: dict[str, Any]


def plain(case: Case, compiled: bool, steps: int) -> list[str]:
    """The command of the plain alternative."""
    words = [case.workload, "--batch", str(case.batch), "--size", str(case.size), "--steps", str(steps)]
    return [sys.executable, str(HERE / "plain_training.py"), *words, *["--compile"] * compiled]


def bare(case: Case, steps: int, labels: dict[str, str]) -> list[str]:
    """The command of the workload's script, started by hand with the parameters of its job file."""
    job = api.load(case.job, case.set(steps, labels))
    words = [f"--{name}={value}" for name, value in job.parameters.items()]
    return [sys.executable, str(WORKLOADS / job.boot), *words, f"--timer_warmup={case.warmup}"]


def prepare(cases: list[Case], labels: dict[str, str]) -> None:
    """Makes the files, and runs everything that compiles for a few steps, all at once: what is timed later finds it cached."""
    random = [case for case in cases if not case.files]
    commands = [command for case in random for command in (plain(case, True, 4), bare(case, SHORT, labels))]
    if len(random) < len(cases):
        commands.append([sys.executable, str(WORKLOADS / "resnet50" / "generate.py"), str(_files()), *FILES])
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    for process in started:
        process.wait()


def under_muster(case: Case, steps: int, labels: dict[str, str]) -> Bench:
    """The same under `muster bench`, sampling included."""
    overrides = [word for setting in case.set(steps, labels) for word in ("--set", setting)]
    command = [sys.executable, "-m", "muster.cli.main", "bench", str(case.job)]
    result = json.loads(_run([*command, *overrides, "--set", f"python={sys.executable}", "--json"]))
    return Bench(float(result["metrics"]["throughput"]["value"]), result["power"])


def _files() -> Path:
    return Path(os.environ["MUSTER_HOME"], "images")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def _rate(text: str) -> float:
    return float(RATE.findall(text)[-1].replace(",", ""))


def measure(case: Case, labels: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """One row: the peers once, the bare script and the same under Muster in turns."""
    steps = math.ceil(options.seconds * case.aim / case.batch)
    found: dict[str, Any] = {"name": case.name, "batch": case.batch, "aim": case.aim, "plain": None, "compiled": None}
    for column, compiled in () if case.files else (("plain", False), ("compiled", True)):
        found[column] = float(json.loads(_run(plain(case, compiled, steps)).splitlines()[-1])["throughput"])
        _say(f"{case.name}: {found[column]:,.1f} {PEERS[case.workload]}, {column}")
    alone, benches = [], []
    for turn in range(options.turns):
        alone.append(_rate(_run(bare(case, steps + case.warmup, labels))))
        _say(f"{case.name}: {alone[-1]:,.1f} ours, turn {turn + 1} of {options.turns}")
        benches.append(under_muster(case, steps + case.warmup, labels))
        _say(f"{case.name}: {benches[-1].throughput:,.1f} under Muster, {json.dumps(benches[-1].power)}")
    found["bare"], found["bench"] = statistics.median(alone), statistics.median(bench.throughput for bench in benches)
    found["below_percent"] = 100 * (1 - found["bench"] / found["bare"])
    found["bare_turns"], found["bench_turns"] = alone, [bench.throughput for bench in benches]
    found["power"] = benches[-1].power
    return found


def _say(text: str) -> None:
    print(f"{time.perf_counter() - STARTED:5.0f} s  {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the cases whose names begin like this")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long one timing takes, about (20)")
    parser.add_argument("--turns", type=int, default=3, help="timings of each of ours (3)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the workloads")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit(f"{sys.executable} has no PyTorch. Start this with a Python that has it, torchvision, transformers and Muster")
    if not torch.cuda.is_available():
        sys.exit("this machine has no GPU that PyTorch can use")
    cases = [case for case in CASES if case.name.startswith(options.only)]
    labels = dict(label.split("=", 1) for label in options.label)
    with tempfile.TemporaryDirectory() as home:
        os.environ["MUSTER_HOME"] = home
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{home}/compiled")  # a node of a run has a /tmp of its own
        _say("compiling")
        prepare(cases, labels)
        rows = [measure(case, labels, options) for case in cases]
    versions = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
    print(json.dumps({**versions, "rows": rows}, indent=1) if options.json else _text(versions, rows))


def _text(versions: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [", ".join(f"{name} {value}" for name, value in versions.items())]
    lines.append(f"{'samples/s':<20}{'batch':>6}{'plain':>9}{'compiled':>10}{'ours':>9}{'bench':>9}{'below':>8}{'aim':>8}")
    for row in rows:
        peers = "".join(f"{'' if row[name] is None else format(row[name], ',.0f'):>{width}}" for name, width in PEER_COLUMNS)
        lines.append(
            f"{row['name']:<20}{row['batch']:>6}{peers}{row['bare']:>9,.0f}{row['bench']:>9,.0f}"
            f"{row['below_percent']:>7.2f}%{row['aim']:>8,.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Times the reference workloads on this machine's GPU beside what a user would write, and beside themselves under Muster."""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from muster.launch import api

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "workloads"
RATE = re.compile(r"^([\d,.]+) samples/s", re.MULTILINE)
SHORT = 10  # steps that compile, tune and capture
WARM_UP = 50  # steps that are not timed
PEERS = {"resnet50": "torchvision", "bert-large": "transformers"}


@dataclass(frozen=True)
class Case:
    """One workload at one size, with the throughput to aim for on an H200."""

    workload: str
    size: int
    batch: int
    aim: float
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.workload} {self.size}"


CASES = [
    Case("resnet50", 224, 256, 7000.0),
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
    job = api.load(WORKLOADS / case.workload / "one-gpu.yaml", _set(case, steps, labels))
    warmup = job.bench.warmup if job.bench else 0
    words = [f"--{name}={value}" for name, value in job.parameters.items()]
    return [sys.executable, str(WORKLOADS / job.boot), *words, f"--timer_warmup={warmup}"]


def compile_all(cases: list[Case], labels: dict[str, str]) -> None:
    """Runs everything that compiles for a few steps, all at once: that takes CPUs, and what is timed later finds it cached."""
    commands = [command for case in cases for command in (plain(case, True, 4), bare(case, SHORT, labels))]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    for process in started:
        process.wait()


def under_muster(case: Case, steps: int, labels: dict[str, str]) -> Bench:
    """The same under `muster bench`, sampling included."""
    overrides = [word for setting in _set(case, steps, labels) for word in ("--set", setting)]
    command = [sys.executable, "-m", "muster.cli.main", "bench", str(WORKLOADS / case.workload / "one-gpu.yaml")]
    result = json.loads(_run([*command, *overrides, "--set", f"python={sys.executable}", "--json"]))
    return Bench(float(result["metrics"]["throughput"]["value"]), result["power"])


def _set(case: Case, steps: int, labels: dict[str, str]) -> list[str]:
    chosen = {"batch_size": str(case.batch), "train_steps": str(steps), **case.labels, **labels}
    return [f"parameters.{name}={value}" for name, value in chosen.items()]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def _rate(text: str) -> float:
    return float(RATE.findall(text)[-1].replace(",", ""))


def measure(case: Case, labels: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """One row: the peers once, the bare script and the same under Muster in turns."""
    steps = math.ceil(options.seconds * case.aim / case.batch) + WARM_UP
    found: dict[str, Any] = {"name": case.name, "batch": case.batch, "aim": case.aim}
    for column, compiled in (("plain", False), ("compiled", True)):
        _say(f"{case.name}: {PEERS[case.workload]}{', compiled' * compiled}")
        found[column] = float(json.loads(_run(plain(case, compiled, steps)).splitlines()[-1])["throughput"])
    alone, benches = [], []
    for turn in range(options.turns):
        _say(f"{case.name}: turn {turn + 1} of {options.turns}")
        alone.append(_rate(_run(bare(case, steps, labels))))
        benches.append(under_muster(case, steps, labels))
    found["bare"], found["bench"] = statistics.median(alone), statistics.median(bench.throughput for bench in benches)
    found["below_percent"] = 100 * (1 - found["bench"] / found["bare"])
    found["bare_turns"], found["bench_turns"] = alone, [bench.throughput for bench in benches]
    found["power"] = benches[-1].power
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="the cases whose names begin like this")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long one timing takes, about (20)")
    parser.add_argument("--turns", type=int, default=3, help="timings of each of ours (3)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the workloads")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this machine has no GPU that PyTorch can use")
    cases = [case for case in CASES if case.name.startswith(options.only)]
    labels = dict(label.split("=", 1) for label in options.label)
    with tempfile.TemporaryDirectory() as home:
        os.environ["MUSTER_HOME"] = home
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{home}/compiled"  # a node of a run has a /tmp of its own
        _say("compiling")
        compile_all(cases, labels)
        rows = []
        for case in cases:
            rows.append(measure(case, labels, options))
            _say(_text({}, rows[-1:]))
    versions = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
    print(json.dumps({**versions, "rows": rows}, indent=1) if options.json else _text(versions, rows))


def _text(versions: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [", ".join(f"{name} {value}" for name, value in versions.items())]
    lines.append(f"{'samples/s':<18}{'batch':>6}{'plain':>9}{'compiled':>10}{'ours':>9}{'bench':>9}{'below':>8}{'aim':>8}")
    for row in rows:
        numbers = f"{row['plain']:>9,.0f}{row['compiled']:>10,.0f}{row['bare']:>9,.0f}{row['bench']:>9,.0f}"
        lines.append(f"{row['name']:<18}{row['batch']:>6}{numbers}{row['below_percent']:>7.2f}%{row['aim']:>8,.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

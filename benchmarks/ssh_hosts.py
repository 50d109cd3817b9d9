"""Measures runs on hosts over ssh against ssh alone: first line, 64 sessions, a log (delay, throughput) and a stop beside it.

All hosts are this machine, behind an ssh server of the benchmark's own at a loopback address. Needs sshd, not root.
"""

import argparse
import getpass
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from launch import find_muster
from timing import WORD, Command, run_timed

FEW, MANY = 8, 64
WRITES = 200  # lines of which the way is timed
FLOOD = 512  # megabytes of a log
LIMIT = 60.0
SSHD = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
MaxStartups 200
MaxSessions 200
SetEnv HOME={place}/empty
"""
CLIENT = """\
Host h*
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {place}/key
  IdentitiesOnly yes
  HostKeyAlias benchmark
  UserKnownHostsFile {place}/known_hosts
  GlobalKnownHostsFile /dev/null
"""
CLOCK = f"""
import time
time.sleep(1)
for _ in range({WRITES}):
    print("at", time.monotonic(), flush=True)
    time.sleep(0.02)
time.sleep(1)
"""
FLOODING = f"""
import os
line = b"x" * 1023 + b"\\n"
for _ in range({FLOOD}):
    os.write(1, line * 1024)
"""
ENDLESS = f"""
import os, signal, sys, time
told = sys.argv[-1].partition("=")[2]
def end(*_):
    with open(told + ".part", "w") as file:
        file.write(str(time.monotonic()))
    os.rename(told + ".part", told)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
line = b"x" * 1023 + b"\\n"
for _ in range({2 * FLOOD}):
    os.write(1, line * 1024)
signal.pause()
"""


@dataclass(frozen=True)
class Row:
    """What was measured, of Muster and of ssh alone, and what is aimed at, in the same unit."""

    name: str
    unit: str
    muster: float
    ssh: float
    aim: float
    most: bool  # whether the aim is the most that it may be, or the least

    @property
    def holds(self) -> bool:
        return self.muster < self.aim if self.most else self.muster >= self.aim


class Hosts:
    """An ssh server, and an `ssh` that knows it under many names."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        for name in ("host_key", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
        (place / "sshd_config").write_text(SSHD.format(place=place, port=port))
        (place / "ssh_config").write_text(CLIENT.format(place=place, port=port, user=getpass.getuser()))
        (place / "known_hosts").write_text(f"benchmark {(place / 'host_key.pub').read_text()}")
        (place / "bin").mkdir()
        (place / "bin/ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/ssh_config "$@"\n')
        (place / "bin/ssh").chmod(0o755)
        (place / "home").mkdir()
        (place / "empty").mkdir()  # without the start-up files of this user's shell, which can take long
        self.env = {**os.environ, "MUSTER_HOME": f"{place}/home", "PATH": f"{place}/bin:{os.environ['PATH']}"}
        (place / "home/config.toml").write_text(
            f'engine = "ssh"\n[hosts.all]\nnodes = ["h[1-{MANY}]"]\ndirectory = "{place}/hosts"\npython = "{sys.executable}"\n'
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # which sshd wants of root
        server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or sys.exit("there is no sshd here")
        self._server = subprocess.Popen([server, "-D", "-f", place / "sshd_config"], stderr=subprocess.DEVNULL)
        until(lambda: subprocess.run([*self.ssh("true")], env=self.env, capture_output=True).returncode == 0)

    def ssh(self, command: str) -> list[str]:
        return ["ssh", "-T", "h1", command]

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition; ends the benchmark when it never holds."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("it never happened: the figures would mean nothing")
        time.sleep(0.005)


def echoing(hosts: Hosts, muster: str, nodes: int, rounds: int) -> tuple[float, float]:
    """Medians of the seconds until the first rank, and until all of them, had their line shown; caches are warm."""
    job = f"command: [echo, {WORD}]\nnodes: {nodes}\ndevice: cpu\nper: node\n"
    folder = hosts.place / f"echo-{nodes}"
    folder.mkdir()
    (folder / "echo.yaml").write_text(job)
    command = Command([muster, "run", "echo.yaml"], nodes, hosts.env)
    timings = [run_timed(command, folder) for _ in range(rounds + 1)][1:]
    firsts, lasts = zip(*((timing.first_line_s or 0, timing.last_line_s or 0) for timing in timings), strict=True)
    return statistics.median(firsts), statistics.median(lasts)


def sessions(hosts: Hosts, count: int, rounds: int) -> float:
    """Median of the seconds that as many sessions of ssh alone take, all at a time, each with a `true` on its host."""
    found = []
    for _ in range(rounds):
        begun = time.monotonic()
        opened = [subprocess.Popen(["ssh", "-T", f"h{number + 1}", "true"], env=hosts.env) for number in range(count)]
        codes = [process.wait() for process in opened]
        if any(codes):
            sys.exit("not all sessions could be opened")
        found.append(time.monotonic() - begun)
    return statistics.median(found)


@contextmanager
def detached(hosts: Hosts, muster: str, name: str, text: str, *words: object) -> Iterator[tuple[str, Path, Path]]:
    """A run on the first host: its id, and its log here and there, once both are begun; stopped in the end."""
    (hosts.place / name).mkdir()
    (hosts.place / name / "train.py").write_text(text)
    job = hosts.place / name / "job.yaml"
    job.write_text(f"boot: train.py\npython: {sys.executable}\ndevice: cpu\n")
    command = [muster, "run", str(job), "--detach", *map(str, words)]
    done = subprocess.run(command, env=hosts.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    run = done.stdout.strip()
    log = f"runs/{run}/attempts/1/nodes/0/logs/rank-0.log"
    here, there = hosts.place / "home" / log, hosts.place / "hosts/nodes/0" / log
    try:
        until(lambda: here.exists() and there.exists())
        yield run, here, there
    finally:
        subprocess.run([muster, "stop", run, "--now"], env=hosts.env, capture_output=True)


def followed(hosts: Hosts, muster: str) -> tuple[float, float]:
    """Medians of the milliseconds between a rank's write and the line in `muster logs -f`, and in `ssh HOST tail -f`."""
    with detached(hosts, muster, "clock", CLOCK) as (run, _, there):
        ways = ([muster, "logs", run, "--follow"], hosts.ssh(f"tail -n +1 -f {there}"))
        readers = [subprocess.Popen(words, env=hosts.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for words in ways]
        delays: list[list[float]] = [[], []]
        threads = [
            threading.Thread(target=_delays, args=(reader, found)) for reader, found in zip(readers, delays, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for reader in readers:
            reader.kill()
            reader.wait()
    return 1000 * statistics.median(delays[0]), 1000 * statistics.median(delays[1])


def _delays(reader: "subprocess.Popen[bytes]", found: list[float]) -> None:
    assert reader.stdout is not None
    for line in reader.stdout:
        with suppress(ValueError, IndexError):
            found.append(time.monotonic() - float(line.split()[-1]))
        if len(found) == WRITES:
            return


def flooded(hosts: Hosts, muster: str, rounds: int) -> tuple[float, float]:
    """Medians of the megabytes of a log that come in a second: through Muster, and through `ssh HOST cat`."""
    ours, plain = [], []
    for number in range(rounds):
        with detached(hosts, muster, f"flood-{number}", FLOODING) as (_, here, _):
            begun, had = time.monotonic(), here.stat().st_size
            until(lambda: here.stat().st_size == FLOOD << 20)
            ours.append(((FLOOD << 20) - had) / 1e6 / (time.monotonic() - begun))
            shutil.copy(here, hosts.place / "copy.log")
        begun = time.monotonic()
        with (hosts.place / "plain.log").open("wb") as file:
            subprocess.run(hosts.ssh(f"cat {hosts.place}/copy.log"), env=hosts.env, stdout=file, check=True)
        plain.append((FLOOD << 20) / 1e6 / (time.monotonic() - begun))
    return statistics.median(ours), statistics.median(plain)


def stopped(hosts: Hosts, muster: str, rounds: int) -> tuple[float, float]:
    """Medians of the seconds until a program that floods its log is told to end: by `muster stop`, and by `ssh HOST kill`."""
    ours, plain, log = [], [], hosts.place / "endless.log"
    for number in range(rounds):
        told = hosts.place / f"told-{number}"
        with detached(hosts, muster, f"endless-{number}", ENDLESS, "--set", f"parameters.told={told}") as (run, here, _):
            until(lambda: here.stat().st_size > FLOOD << 17)
            ours.append(_told([muster, "stop", run], told, hosts))
        with log.open("wb") as file:
            program = f"echo $$ > {hosts.place}/pid; exec {sys.executable} {hosts.place}/endless-0/train.py --told={told}-alone"
            process = subprocess.Popen(hosts.ssh(program), env=hosts.env, stdout=file)
            until(lambda: log.stat().st_size > FLOOD << 17)
            plain.append(_told(hosts.ssh(f"kill $(cat {hosts.place}/pid)"), Path(f"{told}-alone"), hosts))
            process.wait()
    return statistics.median(ours), statistics.median(plain)


def _told(command: list[str], told: Path, hosts: Hosts) -> float:
    """Seconds from the start of a command until a program has written down that it was told to end."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=hosts.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(told.exists)
    process.wait()
    return float(told.read_text()) - begun


def measured(hosts: Hosts, muster: str, rounds: int) -> list[Row]:
    first, _ = echoing(hosts, muster, FEW, rounds)
    _, all_up = echoing(hosts, muster, MANY, rounds)
    follow, tail = followed(hosts, muster)
    flood, plain = flooded(hosts, muster, rounds)
    stop, kill = stopped(hosts, muster, rounds)
    return [
        Row(f"first line, {FEW} hosts, warm caches / `true`", "s", first, sessions(hosts, FEW, rounds), 1.5, True),
        Row(f"all ranks up, {MANY} sessions / `true`", "s", all_up, sessions(hosts, MANY, rounds), 10.0, True),
        Row("a line on its way to `logs -f` / `tail -f`", "ms", follow, tail, tail + 50, True),
        Row("throughput of a log / `cat`", "MB/s", flood, plain, min(100.0, plain), False),
        Row("`muster stop` beside such a log / `kill`", "s", stop, kill, 1.0, True),
    ]


def text(rows: list[Row]) -> str:
    lines = [("", "muster", "ssh alone", "muster/ssh", "aim", "")]
    for row in rows:
        alone = (f"{row.ssh:.2f} {row.unit}", f"{row.muster / row.ssh:.2f}")
        aim = f"{'<' if row.most else '>='} {row.aim:.1f} {row.unit}"
        lines.append((row.name, f"{row.muster:.2f} {row.unit}", *alone, aim, "holds" if row.holds else "does not hold"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="measured runs of each (default: 3)")
    parser.add_argument("--muster", default=find_muster(), metavar="PATH", help="the command to measure")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-hosts-", ignore_cleanup_errors=True) as temporary:
        hosts = Hosts(Path(temporary))
        try:
            rows = measured(hosts, os.path.abspath(options.muster), options.rounds)
        finally:
            hosts.close()
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
    shown = {**machine, "rows": [{**asdict(row), "holds": row.holds} for row in rows]}
    print(json.dumps(shown, indent=1) if options.json else text(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Runs one command and times it: when it ended, and when the lines it was started for came out. It compares nothing."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

WORD = "hello"
TIMEOUT_S = 120.0
# How long a command's output may stay open after it ended; longer means that it left a process behind.
DRAIN_S = 5.0


@dataclass(frozen=True)
class Command:
    """What to start, and how its echoes are recognised."""

    argv: list[str]
    echoes: int
    env: Mapping[str, str]
    stream: Literal["stdout", "stderr"] = "stdout"
    # Files below the working directory that hold what the processes wrote, for a launcher that may not show it all.
    kept_output: str | None = None


@dataclass(frozen=True)
class Timing:
    total_s: float
    first_line_s: float | None
    last_line_s: float | None
    shown: int


class RunError(Exception):
    """A command that failed or did not do its work; the message is the reason to show."""


def is_echo(line: str) -> bool:
    """Whether a line is an echoed word, with or without a prefix before it."""
    return line.split()[-1:] == [WORD]


def run_timed(command: Command, workdir: Path) -> Timing:
    """Run the command in workdir to its end; raise RunError unless it succeeded and echoed as often as it should."""
    with tempfile.TemporaryFile() as other:
        timing, code, text = _run(command, workdir, other)
        other.seek(0)
        text += other.read().decode(errors="replace")
    if code != 0:
        raise RunError(f"exit code {code}: {last_line(text)}")
    echoed = timing.shown if command.kept_output is None else _count_kept(workdir, command.kept_output)
    if echoed != command.echoes:
        raise RunError(f"{echoed} echoes instead of {command.echoes}: {last_line(text)}")
    return timing


def _run(command: Command, workdir: Path, other: IO[bytes]) -> tuple[Timing, int, str]:
    lines: list[tuple[float, str]] = []
    piped_stdout = command.stream == "stdout"
    start = time.perf_counter()
    try:
        process = subprocess.Popen(
            command.argv,
            cwd=workdir,
            env=command.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped_stdout else other,
            stderr=other if piped_stdout else subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise RunError(f"cannot start {command.argv[0]}: {error.strerror}") from error
    pipe = process.stdout if piped_stdout else process.stderr
    assert pipe is not None
    reader = threading.Thread(target=_stamp_lines, args=(pipe, lines), daemon=True)
    reader.start()
    # Popen.wait(timeout=...) polls in steps of up to 50 ms; a timer that ends the command leaves the wait exact.
    timer = threading.Timer(TIMEOUT_S, _end_group, args=(process.pid,))
    timer.start()
    try:
        code = process.wait()
        end = time.perf_counter()
    except BaseException:
        _end_group(process.pid)
        raise
    finally:
        timer.cancel()
    reader.join(DRAIN_S)
    if end - start >= TIMEOUT_S:
        raise RunError(f"not finished after {TIMEOUT_S:.0f} s")
    if reader.is_alive():
        _end_group(process.pid)
        raise RunError("ended, but left a process that holds its output open")
    echoes = [stamp - start for stamp, line in lines if is_echo(line)]
    timing = Timing(end - start, echoes[0] if echoes else None, echoes[-1] if echoes else None, len(echoes))
    return timing, code, "".join(line for _, line in lines)


def _stamp_lines(pipe: IO[bytes], lines: list[tuple[float, str]]) -> None:
    with pipe:
        for line in pipe:
            lines.append((time.perf_counter(), line.decode(errors="replace")))


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _count_kept(workdir: Path, pattern: str) -> int:
    texts = [path.read_text(errors="replace") for path in workdir.glob(pattern)]
    return sum(is_echo(line) for text in texts for line in text.splitlines())


def last_line(text: str) -> str:
    """The line that says how a run of Muster failed, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith("✗")]
    return (failed or lines or ["no output"])[-1]

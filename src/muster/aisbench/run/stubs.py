"""`ais-bench-stubs`: starts the benchmark of a package, writes its logs, prints its result, and sends it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from muster.aisbench import importing
from muster.aisbench.config.config_json import PlannedTest
from muster.aisbench.layout import PackageLayout
from muster.aisbench.package import Choices
from muster.aisbench.run import network_mode
from muster.bench.formats import aisbench_lines
from muster.config import ConfigError

INIT, TRAIN, RESULT = 1, 2, 4  # exit codes
Say = Callable[[str, str], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(base: str, words: list[str], home: Path, show: Callable[[Exception], int]) -> int:
    """Runs a package in local (`test`) or network mode; `show` prints an error."""
    layout = PackageLayout(base)
    layout.make_folders()
    with suppress(ConfigError), layout.locked():  # the logs of a run that goes on stay
        layout.remove_stubs_logs()
    with (layout.log / "stub.log").open("ab") as log:
        say = _logger(log)
        if words not in ([], ["test"]):
            say("ERROR", "usage: ./ais-bench-stubs [test]; `test` is local mode, without it the tester gets the result")
            return INIT
        network = not words
        test = importing.read(base, str(layout.job), Choices(), here=True).package.test
        say("INFO", f"get ConfigInfo {test.shown()}")
        say("INFO", "ais bench stubs begin run")
        say("INFO", f"workpath:{layout.base} go testcase.")
        before = layout.result_text
        code = _benchmark(layout, network)
        result = layout.result if layout.result_text != before else None  # an earlier one is not of this run
        if result is not None:
            say("INFO", aisbench_lines.shown(result) + "\n")
        if network and result is not None and code != TRAIN:
            code = _send(test, home, layout.bundle(result.id), say, show) or code
        say("INFO", "BenchManager stop done")
        return code


def _benchmark(layout: PackageLayout, network: bool) -> int:
    """Runs benchmark.sh, with its output on stdout and in log/benchmark.log, and passes signals on to it."""
    mode = {network_mode.MODE: network_mode.NETWORK if network else network_mode.LOCAL}
    words = ["bash", str(layout.base / "code" / "benchmark.sh")]
    with (layout.log / "benchmark.log").open("ab") as log:
        child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **mode}, start_new_session=True
        )
        before = {number: signal.signal(number, lambda *_: child.terminate()) for number in SIGNALS}
        try:
            assert child.stdout is not None
            for line in child.stdout:
                log.write(line)
                log.flush()
                os.write(1, line)
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code in (0, 1, 2, 3, 4) else INIT


def _send(test: PlannedTest, home: Path, bundle: Path, say: Say, show: Callable[[Exception], int]) -> int:
    """Sends a result; where the tester does not answer it waits in the outbox."""
    try:
        verdict = network_mode.send(test, home, bundle)
    except Exception as error:
        show(error)
        say("ERROR", f"the tester has not verified the result yet: {error}")
        return RESULT
    for line in verdict.sentences(test.url):
        say("INFO" if verdict.accepted else "ERROR", line)
    return 0 if verdict.accepted else RESULT


def _logger(log: BinaryIO) -> Say:
    def say(level: str, text: str) -> None:
        now = time.localtime()
        line = f"[{now.tm_year}-{now.tm_mon}-{now.tm_mday} {time.strftime('%H:%M:%S', now)}][{level}]{text}\n"
        log.write(line.encode())
        log.flush()
        os.write(1, line.encode())

    return say

"""The steps of a package's benchmark: init, run_train, run_eval, get_result; and stop."""

import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from muster.aisbench import importing, package
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.config.values import Findings
from muster.aisbench.importing import Imported
from muster.aisbench.layout import PackageLayout
from muster.aisbench.package import Choices
from muster.aisbench.run import messages, network_mode
from muster.bench import runner
from muster.bench.formats import aisbench_lines
from muster.bench.model.result import Result
from muster.config import ConfigError
from muster.job.load import load
from muster.job.source import JobError
from muster.launch import api
from muster.launch.follow import Chunk, Follower
from muster.launch.run import Run
from muster.launch.run_store import RunStore
from muster.records.files import read_object, write_text
from muster.records.layout import RunDir
from muster.records.run_view import RunView, State

# The variables by which Muster finds the store of a package; ranks do not get them.
STORE = {
    "endpoint": "OBS_ENDPOINT",
    "region": "OBS_REGION",
    "access_key": "OBS_ACCESS_KEY_ID",
    "secret_key": "OBS_SECRET_ACCESS_KEY",
}
# The variables that choose cards: in a package, and for Muster.
CARDS = {"SINGLE_CARD_INDEX": "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES": "CUDA_VISIBLE_DEVICES"}
STATUS_INTERVAL = 10.0  # seconds between two lines about the state of a run

GoTo = Callable[[Run], None]
"""A function that takes the run to which interrupts go from now on."""
_say = partial(print, flush=True)


def init(base: str, choices: Choices, store: RunStore) -> int:
    """Checks everything that can be checked before the training starts."""
    layout = PackageLayout(base)
    imported = _import(layout, choices)
    _say(f"[INFO] mode {imported.package.mode}")
    for note in imported.findings.notes:
        _say(f"[WARNING] {note}")
    runner.prepare(load(layout.job), store.home, imported.engine, lambda text: _say(f"[WARNING] {text}"))
    if network_mode.enabled():
        network_mode.check(imported.package.test, Path(store.home))
    return 0


def run_train(base: str, choices: Choices, store: RunStore, go_to: GoTo) -> int:
    """Runs the job of the package and stores its logs and its result; returns 1 where a run did not succeed."""
    layout = PackageLayout(base)
    unique = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}/"  # others may write to the same URL
    imported = _import(layout, replace(choices, folder=unique))
    with layout.locked():
        layout.remove_results()
        if not network_mode.started_by_stubs():
            layout.remove_stubs_logs()
        prepared = runner.prepare(load(layout.job), store.home, imported.engine)
        plan = network_mode.plan(imported.package.test, Path(store.home), _say) if network_mode.enabled() else None
        measurement = runner.create_bench(prepared.job, store.home, sys.argv, plan, imported.package.system or None)
        follow = partial(_follow, kind=imported.package.kind, layout=layout, store=store, go_to=go_to)
        states = {view.state for view in runner.run_repeats(measurement, lambda: api.start(prepared), follow)}
        layout.store(measurement, runner.write_result(measurement))
    return 0 if states == {State.SUCCEEDED} else 1


def run_eval(base: str) -> int:
    """Returns 0 where the result has an accuracy, else 1."""
    accuracy = _result(base).metrics.get("accuracy")
    if accuracy is None or accuracy.value is None:
        _say(f"[ERROR] there is no accuracy: {(accuracy and accuracy.reason) or 'no rank reported one'}")
        return 1
    return 0


def get_result(base: str) -> int:
    """Prints the result; returns 1 where it did not pass."""
    result = _result(base)
    for line in aisbench_lines.lines(result):
        _say(line)
    for problem in result.verdict.problems:
        _say(f"[ERROR] {problem}")
    return 0 if result.verdict.passed else 1


def run(base: str, choices: Choices, store: RunStore, go_to: GoTo) -> int:
    """Trains and prints the result, as AISBench's own script does; returns 0 only where the result passed."""
    return run_train(base, choices, store, go_to) or get_result(base)


def stop(base: str, choices: Choices, store: RunStore, job_id: str) -> int:
    """Stops the newest run of this package, or the one with the id; returns 0 when it has ended."""
    imported = importing.read(base, str(PackageLayout(base).job), choices, here=True)
    runs = _runs(store, imported.name, imported.package.code)
    if job_id:
        runs = [run for run in runs if job_id in (messages.identity(run, imported.package.kind), run.id)]
    if not runs:
        _say("find no match version return")
        return 1
    newest = runs[0]
    before = newest.state
    if not newest.ended:
        newest.stop(reason="stopped by train_modelarts.py --action stop")
    _say(messages.stopped(newest, imported.package.kind, len(runs), before))
    return 0 if newest.ended else 1


def _runs(store: RunStore, name: str, code: str) -> list[Run]:
    """Runs with this job name and code directory, the newest first."""
    path = os.path.realpath(code)
    return [run for run in api.runs_in(store) if run.job.name == name and os.path.realpath(run.job.code) == path]


def _import(layout: PackageLayout, choices: Choices) -> Imported:
    """Writes the job file of a package into its `tmp/`, and puts its keys into the environment of this process only."""
    layout.make_folders()
    on_hosts = package.read(str(layout.base), choices, Findings()).names_hosts
    imported = importing.read(str(layout.base), str(layout.job), choices, here=not on_hosts)
    if imported.findings.problems:
        raise JobError(imported.findings.problems)
    write_text(str(layout.job), imported.text)
    os.environ.update({STORE[name]: value for name, value in imported.credentials.storage.items()})
    needed = api.load(str(layout.job)).secrets  # other secrets of the package do not reach the ranks
    os.environ.update({name: imported.credentials.secrets[name] for name in needed})
    for name, mask in CARDS.items():
        if imported.package.kind == OFFLINE and (chosen := imported.package.variable(name)):
            os.environ[mask] = str(chosen.value)
    return imported


def _follow(run: Run, kind: str, layout: PackageLayout, store: RunStore, go_to: GoTo) -> RunView:
    """Writes the logs of a run into the package and prints its state until it ends."""
    go_to(run)
    begun = printed = time.monotonic()
    _say(f"[INFO] {messages.created(run, kind, len(_runs(store, run.job.name, run.job.code)))}")
    logs = _JobLogs(run.dir, layout.log)
    with Follower(run.dir, lambda attempt, process: True) as follower:
        for chunk in run.pieces(follower):
            if chunk is not None:
                logs.add(chunk)
            if time.monotonic() - printed >= STATUS_INTERVAL:
                printed = time.monotonic()
                _say(f"[INFO] {messages.waiting(run.peek().state, kind, printed - begun)}")
    logs.close()
    view = run.view
    level = "INFO" if view.state is State.SUCCEEDED else "ERROR"
    _say(f"[{level}] {messages.ended(view, kind, time.monotonic() - begun)}")
    return view


def _result(base: str) -> Result:
    result = PackageLayout(base).result
    if result is None:
        raise ConfigError(f"{base}/result/result.json is missing; run the training first")
    return result


class _JobLogs:
    """Copies the logs of a run, while it runs, to files in the package's `log/` under the platform's names."""

    def __init__(self, run: RunDir, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self._plans: dict[tuple[int, int], dict[str, list[str]]] = {}
        self._rest: dict[tuple[int, int, str], bytes] = {}  # lines that are not complete yet

    def add(self, chunk: Chunk) -> None:
        key = (chunk.attempt, chunk.node, chunk.process)
        whole, newline, rest = (self._rest.get(key, b"") + chunk.data).rpartition(b"\n")
        self._rest[key] = rest
        if newline:
            self._append(key, whole + newline)

    def close(self) -> None:
        for key, rest in self._rest.items():
            if rest:
                self._append(key, rest)
        self._rest = {}

    def _append(self, key: tuple[int, int, str], data: bytes) -> None:
        for name in self._names(*key):
            with (self._folder / name).open("ab") as file:
                file.write(data)

    def _names(self, attempt: int, node: int, process: str) -> list[str]:
        """Names of the log files of a process: those of the platform, else one per rank; none for Muster's own processes."""
        plan = self._plans.get((attempt, node)) or self._plan(attempt, node)
        own = process.removesuffix(f"-{node}") if process == f"setup-{node}" else process
        named = [name for name, processes in plan.items() if own in processes]
        ranks = [process.replace("rank-", "train_parallel") + ".log"] if process.startswith("rank-") else []
        return named or ranks

    def _plan(self, attempt: int, node: int) -> dict[str, list[str]]:
        found = read_object(self._run.attempt(attempt).node(node).plan)
        plan: dict[str, list[str]] = found.get("log", {})
        self._plans[attempt, node] = plan
        return plan

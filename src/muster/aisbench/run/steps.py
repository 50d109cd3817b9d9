"""The steps of a package's benchmark: init, run_train, run_eval, get_result; and stopping what it runs."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from muster.aisbench import importing
from muster.aisbench.config.mode import OFFLINE
from muster.aisbench.importing import Imported
from muster.aisbench.layout import Place
from muster.aisbench.package import Choices
from muster.aisbench.run import delivery, messages
from muster.aisbench.run.job_logs import JobLogs
from muster.bench import runner
from muster.bench.formats import aisbench_lines
from muster.bench.model import Result
from muster.config import ConfigError
from muster.job.source import JobError
from muster.launch import api
from muster.launch.follow import Follower
from muster.records.files import write_text

# Where the store of a package is named to Muster, which keeps these from the ranks.
STORE = {
    "endpoint": "OBS_ENDPOINT",
    "region": "OBS_REGION",
    "access_key": "OBS_ACCESS_KEY_ID",
    "secret_key": "OBS_SECRET_ACCESS_KEY",
}
# How the cards that a package picks are named to Muster.
CARDS = {"SINGLE_CARD_INDEX": "ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES": "CUDA_VISIBLE_DEVICES"}
TELL = 10.0  # seconds between two lines that say that a run goes on

GoTo = Callable[[api.Run], None]
"""Takes the run that interrupts are for from now on."""


def init(base: str, choices: Choices) -> int:
    """Checks everything that can be checked before the training starts."""
    place = Place(base)
    imported = _take_up(place, choices)
    _say(f"[INFO] mode {imported.package.mode}")
    for note in imported.findings.notes:
        _say(f"[WARNING] {note}")
    runner.prepare(api.loader(str(place.job)), None, str(place.job), lambda text: _say(f"[WARNING] {text}"))
    if delivery.wanted():
        delivery.check(imported.test)
    return 0


def run_train(base: str, choices: Choices, go_to: GoTo) -> int:
    """Runs the job of the package, keeps its logs and its result; 1 where a run did not succeed."""
    place = Place(base)
    imported = _take_up(place, replace(choices, folder=_folder()))
    with place.alone():
        place.forget()
        if not delivery.by_stubs():
            place.forget_stubs()
        prepared = runner.prepare(api.loader(str(place.job)), None, str(place.job))
        plan = delivery.plan(imported.test, _say) if delivery.wanted() else None
        measurement = runner.create_bench(prepared, sys.argv, plan, imported.package.system or None)
        runs = runner.run_repeats(measurement, prepared, lambda run: _follow(run, imported.kind, place, go_to))
        states = [view["state"] for view in runs]
        place.keep(measurement, runner.write_result(measurement))
    return 0 if states and set(states) == {"succeeded"} else 1


def run_eval(base: str) -> int:
    """Whether the training was evaluated: there is an accuracy."""
    accuracy = _result(base).metrics.get("accuracy")
    if accuracy is None or accuracy.value is None:
        _say(f"[ERROR] there is no accuracy: {(accuracy and accuracy.reason) or 'nobody reported one'}")
        return 1
    return 0


def get_result(base: str) -> int:
    """Prints the result; 1 where its numbers do not hold."""
    result = _result(base)
    for line in aisbench_lines.lines(result):
        _say(line)
    for problem in result.verdict.problems:
        _say(f"[ERROR] {problem}")
    return 0 if result.verdict.passed else 1


def run(base: str, choices: Choices, go_to: GoTo) -> int:
    """All of it at once, as AISBench's own script does: 0 only where there are numbers that hold."""
    return run_train(base, choices, go_to) or get_result(base)


def stop(base: str, choices: Choices, job_id: str) -> int:
    """Stops the newest run of this very package and job name, or the one of an id; 0 when it does not run any more."""
    imported = importing.read(base, str(Place(base).job), choices, here=True)
    runs = list(_runs(imported.name, imported.code))
    if job_id:
        runs = [run for run in runs if job_id in (messages.identity(run, imported.kind), run.id)]
    if not runs:
        _say("find no match version return")
        return 1
    newest, version = runs[0], len(runs)
    before = newest.state
    if newest.ended:
        _say(messages.no_need(newest, imported.kind, version))
        return 0
    newest.stop(reason="stopped by train_modelarts.py --action stop")
    _say(messages.stopped(newest, imported.kind, version, before, newest.ended))
    return 0 if newest.ended else 1


def _runs(name: str, code: str) -> Iterator[api.Run]:
    """The runs of a job and its code, the newest first; names and directories that are only alike do not count."""
    for run in api.list_runs():
        job = run.job
        if job.name == name and os.path.realpath(job.code) == os.path.realpath(code):
            yield run


def _folder() -> str:
    """A folder for the outputs of one run: others, of whatever package and machine, may write to the same URL meanwhile."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}/"


def _take_up(place: Place, choices: Choices) -> Imported:
    """The package as a job file in its `tmp/`; its keys are in the environment of this process and nowhere else."""
    place.make()
    imported = importing.read(str(place.base), str(place.job), choices, here=True)
    if imported.findings.problems:
        raise JobError(imported.findings.problems)
    write_text(str(place.job), imported.text)
    os.environ.update({STORE[name]: value for name, value in imported.credentials.storage.items()})
    os.environ.update({name: imported.credentials.secrets[name] for name in _needed(place.job)})
    for name, mask in CARDS.items():
        if imported.kind == OFFLINE and (chosen := imported.package.variable(name)):
            os.environ[mask] = str(chosen.value)
    return imported


def _needed(job: Path) -> tuple[str, ...]:
    """The secrets that the ranks of a job get; others of the package are none of their business."""
    return api.load(str(job)).secrets


def _follow(run: api.Run, kind: str, place: Place, go_to: GoTo) -> Mapping[str, Any]:
    """Keeps the logs of a run and says how it goes on."""
    go_to(run)
    begun = told = time.monotonic()
    _say(f"[INFO] {messages.created(run, kind, len(list(_runs(run.job.name, run.job.code))))}")
    logs = JobLogs(run.dir, place.log)
    with Follower(run.dir, lambda attempt, process: True) as follower:
        for chunk in run.pieces(follower):
            if chunk is not None:
                logs.add(chunk)
            if time.monotonic() - told >= TELL:
                told = time.monotonic()
                _say(f"[INFO] {messages.waiting(run.peek()['state'], kind, told - begun)}")
    logs.close()
    view = run.view
    level = "INFO" if view["state"] == "succeeded" else "ERROR"
    _say(f"[{level}] {messages.ended(view, kind, time.monotonic() - begun)}")
    return view


def _result(base: str) -> Result:
    found = Place(base).result
    if found is None:
        raise ConfigError(f"{base}/result/result.json is missing; run the training first")
    return found


def _say(text: str) -> None:
    print(text, flush=True)

"""The first worker: it has the run's supervisor, and writes the record for the submitter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from muster.agent.supervisor.site import Assignment
from muster.agent.supervisor.supervisor import Supervisor
from muster.dataclass import replace
from muster.devices import resolve
from muster.engines.modelarts.node.inside import line
from muster.engines.modelarts.node.inside.given import CODE, RECORD
from muster.engines.modelarts.node.inside.record import Record
from muster.engines.modelarts.node.inside.site import InsideSite
from muster.engines.modelarts.node.inside.worker import FIRST_LIMIT, OVER, Worker, environment, say
from muster.engines.ssh.options import HostsOptions
from muster.job import Job
from muster.linux import keys, syscalls
from muster.records import state
from muster.records.files import Events, write_json
from muster.records.layout import RunDir, run_dir
from muster.records.run_view import State
from muster.storage.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

LOST_AFTER = 60.0
AT_ONCE = 64  # workers that are spoken to at a time
PAUSE = 0.2


def carry_out(worker: Worker) -> int:
    """Runs the supervisor to its end; returns the exit code of the run."""
    told: list[int] = []
    supervisor: list[subprocess.Popen[bytes]] = []

    def terminated(*_: object) -> None:
        told.append(signal.SIGTERM)
        for process in supervisor:
            process.terminate()

    signal.signal(signal.SIGTERM, terminated)
    if missing := _gather(worker, lambda: bool(told)):
        say(f"worker {', '.join(map(str, missing))} did not answer")
        return 143 if told else 1
    run = _prepare(worker)
    record = Record(run, worker.given.attempt, worker.given.job.nodes, worker.place(RECORD))
    supervisor.append(_start(worker, run))
    if told:
        supervisor[0].terminate()
    while (code := supervisor[0].poll()) is None:
        record.write()
        time.sleep(PAUSE)
    record.finish(_said(run) if code or not state.recorded(run) else "")
    say(f"the run has ended: {_reason(run)}")
    _each(range(1, len(worker.hosts)), lambda index: _tell(worker, index))
    return _exit_code(run)


def _gather(worker: Worker, ended: Callable[[], bool]) -> list[int]:
    """Waits until all workers answer; returns those that do not."""
    deadline = time.monotonic() + FIRST_LIMIT
    missing, pause = list(range(1, len(worker.hosts))), PAUSE
    while missing and not ended() and time.monotonic() < deadline:
        missing = [index for index, there in zip(missing, _each(missing, lambda index: _answers(worker, index))) if not there]
        if missing:
            time.sleep(pause)
            pause = min(5.0, 2 * pause)
    return missing


def _each(indexes: Iterable[int], action: Callable[[int], bool]) -> list[bool]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(action, indexes))


def _answers(worker: Worker, index: int, command: str = "true") -> bool:
    """True if a worker has taken a command."""
    try:
        with line.dial(worker.hosts[index], worker.given.key, index, command) as connection:
            connection.settimeout(line.GREETING)
            while connection.recv(line.PIECE):
                pass
        return True
    except OSError:
        return False


def _tell(worker: Worker, index: int) -> bool:
    """Lets a worker end. One that is gone does not need it."""
    return any(_answers(worker, index, OVER.decode() + "0") for _ in range(3))


def _prepare(worker: Worker) -> RunDir:
    """Writes the directory of the run as the supervisor here needs it."""
    given = worker.given
    run = run_dir(f"{worker.home}/muster", given.run)
    os.makedirs(run.path)
    hosts = HostsOptions(
        nodes=tuple(worker.hosts),
        python=sys.executable,
        directory=f"{worker.base}/hosts",
        ssh=given.job.ssh,
        namespaces=False,
        lost_after=LOST_AFTER,
    )
    write_json(run.job, inside(given.job, hosts, worker.place).to_json())
    write_json(run.run, {"run": run.id, "engine": "modelarts", "created": time.time()})
    return run


def inside(job: Job, hosts: HostsOptions, place: Callable[[str], str]) -> Job:
    """The job as it runs here. The service has brought its data; the submitter tries it again, and keeps its time."""
    data = {**job.inputs, **job.outputs}
    passed = {name: place(name) for name, one in data.items() if one.access != "env"}
    variables = {name: place(name) for name, one in data.items() if one.access == "env"}
    changes: dict[str, Any] = {"inputs": {}, "outputs": {}, "requires": {}, "log_url": "", "modelarts": None}
    changes.update(hosts=hosts, device=resolve(job.device), retries=0, time_limit=None, preemptible=False)
    changes.update(parameters={**passed, **job.parameters}, env={**variables, **job.env}, metrics={})
    return replace(job, **changes)


def _start(worker: Worker, run: RunDir) -> subprocess.Popen[bytes]:
    words = ["engine", "modelarts", "supervise", run.path, "--code", worker.place(CODE), "--python", sys.executable]
    words += ["--namespaces", "off", "--key", worker.key_file, "--attempt", str(worker.given.attempt)]
    variables = {**environment(os.environ), keys.STORAGE: Settings(run.home).to_json()}  # without any key
    with open(run.log, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", sys.argv[0], *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=variables,
            cwd="/",
            preexec_fn=syscalls.die_with_parent,
        )


def supervise(words: list[str]) -> int:
    """The supervisor, a process of its own."""
    path, given = words[0], dict(zip(words[1::2], words[2::2]))
    assignment = Assignment.read(path, given)
    events = Events(assignment.run.events)
    site = InsideSite(assignment, events, given["--key"], int(given["--attempt"]))
    return Supervisor(assignment, site, events).carry_out()


def _said(run: RunDir) -> str:
    from muster.records.logs import last_lines

    return (last_lines(run.log, 1) or ["it left no word"])[0]


def _reason(run: RunDir) -> str:
    found = state.recorded(run)
    return f"{found.state}: {found.reason}" if found else f"its supervisor failed: {_said(run)}"


def _exit_code(run: RunDir) -> int:
    found = state.recorded(run)
    if found is None or found.state is not State.FAILED:
        return 0 if found and found.state is State.SUCCEEDED else 143 if found and found.state is State.STOPPED else 1
    failure = found.failure.failure if found.failure else None
    code = failure and (128 + failure.signal if failure.signal else failure.code)
    return code if code and 0 < code < 256 else 1

"""The Python API: load a job, run it, and live with its runs. The command line uses nothing else."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster import engines
from muster.job import Job
from muster.job.load import load_data, load_file
from muster.launch import create
from muster.launch.follow import Chunk, Follower
from muster.runs import state as states
from muster.runs.files import read_json, write_once
from muster.runs.layout import RunDir, home, run_dir, runs_dir
from muster.runs.ranks import nodes, ranks
from muster.runs.watch import Watch

CREATION = 30.0  # a run that was made this recently may not have been handed to its engine yet
POLL = 1.0  # between two questions to the engine whether a run is still alive


class RunNotFound(Exception):
    """A name that no run has, or that several have."""


def load(source: str | os.PathLike[str] | Mapping[str, Any], set: Sequence[str] = (), base: str = ".") -> Job:
    """The job that a file or a mapping describes. `set` holds `name=value` overrides. Raises JobError."""
    if isinstance(source, Mapping):
        return load_data(source, set, base)
    return load_file(source, set)


def run(
    job: Job | str | os.PathLike[str] | Mapping[str, Any],
    *,
    set: Sequence[str] = (),
    engine: str = "local",
    detach: bool = False,
) -> Run:
    """Starts a run. Unless detached, it is stopped when this process ends."""
    source = ""
    if not isinstance(job, Job):
        if not isinstance(job, Mapping):
            source = Path(job).read_text(encoding="utf-8", errors="replace") if Path(job).is_file() else ""
        job = load(job, set)
    return start(create.prepare(job, engine, source), detach)


def start(prepared: create.Prepared, detach: bool = False) -> Run:
    """Starts a prepared run."""
    if detach:
        return Run(create.start(prepared))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        run = Run(create.start(prepared, reader))
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    run._tie = writer  # closed by the system with this process, which tells the supervisor
    return run


def get(name: str) -> Run:
    """The run of an id, of a unique beginning of one, or the `last` one."""
    ids = run_ids()
    if name == "last" and ids:
        return Run(run_dir(home(), max(ids, key=_created)))
    if name in ids:
        return Run(run_dir(home(), name))
    matching = [run_id for run_id in ids if name and run_id.startswith(name)]
    if len(matching) == 1:
        return Run(run_dir(home(), matching[0]))
    if matching:
        shown = ", ".join(sorted(matching)[:4]) + (", ..." if len(matching) > 4 else "")
        raise RunNotFound(f"`{name}` could be {len(matching)} runs ({shown}); write more of the id")
    hint = "`muster ps` lists them" if ids else f"there are none in {home()}"
    raise RunNotFound(f"no run is called `{name}`; {hint}")


def run_ids() -> list[str]:
    try:
        return [name for name in os.listdir(runs_dir(home())) if not name.startswith(".")]
    except FileNotFoundError:
        return []


def runs() -> list[Run]:
    """All runs, the newest first."""
    return [Run(run_dir(home(), run_id)) for run_id in sorted(run_ids(), key=_created, reverse=True)]


def _created(run_id: str) -> tuple[str, float]:
    """Sorts ids by the time that they carry; two of one second by when their directories were made."""
    parts = run_id.rsplit("-", 3)
    return ("-".join(parts[1:3]) if len(parts) == 4 else "", os.stat(f"{runs_dir(home())}/{run_id}").st_ctime)


class Run:
    """One run, seen through its directory. Every property reads it anew."""

    def __init__(self, dir: RunDir) -> None:
        self.dir = dir
        self.id = dir.id
        self._tie: int | None = None

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def view(self) -> dict[str, Any]:
        """Everything about the run as it stands. Who first sees that it was lost writes that down."""
        recorded: dict[str, Any] | None = read_json(self.dir.final)
        return recorded if recorded is not None else self._observe(self._status())

    @property
    def state(self) -> str:
        return str(self.view["state"])

    @property
    def reason(self) -> str:
        return str(self.view["reason"])

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run was worth: the numbers that its ranks recorded, or None."""
        result: dict[str, Any] | None = self.view["result"]
        return result

    @property
    def ended(self) -> bool:
        return self.state in states.ENDED

    @property
    def job(self) -> Job:
        return Job.from_json(read_json(self.dir.job) or {})

    def ranks(self, attempt: int | None = None) -> list[dict[str, Any]]:
        """The processes of an attempt (the last one) with their states, exit codes and times."""
        last = self.dir.last_attempt()
        chosen = self.dir.attempt(attempt) if attempt else last
        return ranks(chosen, self.job, self.view["state"] in states.ENDED) if chosen else []

    def peek(self) -> dict[str, Any]:
        """The run as its files tell it, without asking the engine."""
        return states.view(self.dir)

    def details(self) -> dict[str, Any]:
        """Everything about the run: its view, and each attempt with its nodes and ranks."""
        view = self.view
        recorded = {attempt["attempt"]: attempt for attempt in view.get("attempts", [])}
        attempts = []
        for number in self.dir.attempt_numbers():
            attempt = recorded.get(number) or {"attempt": number, "state": view["state"], "reason": view["reason"]}
            attempts.append({**attempt, "nodes": nodes(self.dir.attempt(number), self.job), "ranks": self.ranks(number)})
        return {**view, "failure": view.get("failure"), "attempts": attempts, "job": self.job.to_json()}

    def wait(self, timeout: float | None = None) -> str:
        """Waits for the end; returns the state, which is not an end when the time was up first."""
        deadline = None if timeout is None else time.monotonic() + timeout
        watch = Watch()
        watch.add(self.dir.path)
        try:
            while True:
                if self.ended:
                    return self.state
                left = POLL if deadline is None else min(POLL, deadline - time.monotonic())
                if left <= 0:
                    return self.state
                self._until_change(watch, left)
        finally:
            watch.close()

    def _until_change(self, watch: Watch, timeout: float) -> None:
        """Sleeps until the run may have ended; most changes of its directory are not that."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not os.path.exists(self.dir.final):
            watch.wait(deadline - time.monotonic())

    def logs(self, rank: int | None = None, process: str | None = None, attempt: int | None = None) -> Iterator[bytes]:
        """The log of one process (rank 0 unless said otherwise) as it stands, in pieces."""
        name = process or f"rank-{rank or 0}"
        number = attempt or (self.dir.attempt_numbers() or [0])[-1]
        follower = Follower(self.dir, lambda found, log: found == number and log == name)
        try:
            for chunk in follower.chunks():
                yield chunk.data
        finally:
            follower.close()

    def follow(self, follower: Follower, tick: float = POLL) -> Iterator[Chunk | None]:
        """What the run's processes write, until it ends; None whenever nothing came for a while."""
        asked = time.monotonic()
        changed: list[tuple[str, str]] | None = None
        while True:
            ended = follower.ended
            yield from follower.chunks(None if ended else changed)
            if ended:
                return
            changed = follower.wait(tick)
            if not changed:
                yield None
            if time.monotonic() - asked >= POLL:
                asked = time.monotonic()
                self._observe(self._status())

    def stop(self, now: bool = False, reason: str = "stopped by the user", wait: bool = True) -> str:
        """Asks the run to stop: ranks get the job's grace, or none with `now`."""
        if not self.ended:
            write_once(self.dir.kill if now else self.dir.stop, {"reason": reason, "time": time.time()})
        return self.wait() if wait else self.state

    def rerun(self, set: Sequence[str] = (), detach: bool = False) -> Run:
        """Starts the same job again, with the code as it was recorded."""
        return start(self.prepare_rerun(set), detach)

    def prepare_rerun(self, set: Sequence[str] = ()) -> create.Prepared:
        record = read_json(self.dir.run) or {}
        code = f"{home()}/code/{record.get('code')}"
        data = {**recorded_fields(self.job), "code": code}
        return create.prepare(load_data(data, set, source=self.id), record.get("engine", "local"))

    def remove(self) -> None:
        """Deletes the record of a run that has ended."""
        shutil.rmtree(self.dir.path)

    def _status(self) -> states.Status:
        record = read_json(self.dir.run) or {}
        engine = self._engine(record)
        handle = record.get("handle") or engine.find(self.dir.path)
        if handle is None:
            if time.time() - os.stat(self.dir.path).st_mtime < CREATION:
                return states.Status(True, "it is just being created")
            return states.Status(False, "it was never started: the command that created it was killed")
        return engine.poll([handle])[handle]

    def _engine(self, record: dict[str, Any]) -> engines.Engine:
        return engines.get(record.get("engine", "local"))

    def _observe(self, status: states.Status) -> dict[str, Any]:
        if not status.alive and not os.path.exists(self.dir.final):
            self._engine(read_json(self.dir.run) or {}).sweep(self.id)
            return states.conclude(self.dir, status)
        return states.view(self.dir, status)


def recorded_fields(job: Job) -> dict[str, Any]:
    """A recorded job in the form that a job file has, for checking it again together with overrides."""
    fields = {}
    for name, value in job.to_json().items():
        if value in ("", None, (), {}) or (name == "ps" and not value):
            continue
        if name in ("time_limit", "silent_limit", "grace"):
            value = f"{value:.3f}s"
        elif name == "memory":
            value = f"{value / 1024:.4f}K"
        fields[name] = value
    if not job.boot:
        fields.pop("python", None)
    return fields

"""Names as people write them: the run, attempt or process that is meant, or an error that says what there is instead."""

from __future__ import annotations

import os
from collections.abc import Iterable

from muster.job import LAUNCHERS, Job
from muster.records.files import read_object
from muster.records.json_safe import number
from muster.records.layout import BenchDir, RunDir, bench_dir, benches_dir, home, run_dir, runs_dir

SHOWN = 8  # names in an error
# Every node may have one: `setup-1` is that of node 1.
EVERYWHERE = ("setup", "inputs", "outputs", "storage", "sshd", "sampler", "note", "harvest")
# Processes that write for whoever looks for a fault: `run` does not show their logs.
BACKGROUND = ("scheduler", "storage", "sshd", "reception", "sampler", "note", "harvest")


class RunNotFound(Exception):
    """A name that no run has, or that several have; a rank, process or attempt that a run does not have."""


def in_background(process: str) -> bool:
    """Whether a process, by the name of its log, works in the background; one of several has a number."""
    return process in BACKGROUND or process.rpartition("-")[0] in BACKGROUND


def run_ids() -> list[str]:
    """The ids of all runs, the newest first. A directory is a run once it says so: before, it is just being made."""
    place = home()
    try:
        names = os.listdir(runs_dir(place))
    except (FileNotFoundError, NotADirectoryError):
        return []
    ages = {name: _written(run_dir(place, name)) for name in names if not name.startswith(".")}
    return sorted((name for name, written in ages.items() if written), key=lambda name: _age(name, ages[name]), reverse=True)


def find(name: str) -> RunDir:
    """The run of an id, of a unique beginning of one, or the `last` one."""
    ids = run_ids()
    if name in ids:
        return run_dir(home(), name)
    matching = ids[:1] if name == "last" else [run_id for run_id in ids if name and run_id.startswith(name)]
    if len(matching) == 1:
        return run_dir(home(), matching[0])
    if matching:
        raise RunNotFound(f"`{name}` could be {len(matching)} runs ({_some(sorted(matching))}); write more of the id")
    hint = "`muster ps` lists them" if ids else f"there are none in {home()}"
    raise RunNotFound(f"no run is called `{name}`; {hint}")


def bench_ids() -> list[str]:
    """The ids of all measurements, the newest first."""
    try:
        found = [bench_dir(home(), name) for name in os.listdir(benches_dir(home()))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    ages = {bench.id: number(read_object(bench.bench).get("created")) or 0.0 for bench in found if os.path.exists(bench.bench)}
    return sorted(ages, key=lambda name: (ages[name], name), reverse=True)


def listed_runs(bench: BenchDir) -> list[str]:
    """The runs that the record of a measurement lists."""
    runs = read_object(bench.bench).get("runs")
    return [run for run in runs if isinstance(run, str)] if isinstance(runs, list) else []


def measured(name: str) -> BenchDir | RunDir:
    """The measurement or the run of an id or a unique beginning of one; `last` is what the newest run was made for."""
    benches, runs = bench_ids(), run_ids()
    if name == "last" and runs:
        return _made_for(runs[0], benches)
    if name in benches:
        return bench_dir(home(), name)
    matching = [bench for bench in benches if name and bench.startswith(name)]
    if not matching or name in runs:
        return find(name)
    matching += [run for run in runs if run.startswith(name)]
    if len(matching) > 1:
        shown = _some(sorted(matching))
        raise RunNotFound(f"`{name}` could be {len(matching)} benches and runs ({shown}); write more of the id")
    return bench_dir(home(), matching[0])


def _made_for(run: str, benches: Iterable[str]) -> BenchDir | RunDir:
    for name in benches:
        found = bench_dir(home(), name)
        if run in listed_runs(found):
            return found
    return run_dir(home(), run)


def attempt_number(run: RunDir, attempt: int) -> int:
    """An attempt that the run has."""
    numbers = run.attempt_numbers()
    if attempt not in numbers:
        shown = f"attempt{'s' * (len(numbers) > 1)} {_some(map(str, numbers))}" if numbers else "none yet"
        raise RunNotFound(f"{run.id} has no attempt {attempt}; it has {shown}")
    return attempt


def rank_log(run: RunDir, job: Job, rank: int) -> str:
    """The name of a rank's log."""
    if not 0 <= rank < job.ranks:
        raise RunNotFound(f"{run.id} has no rank {rank}; it has {_ranks(job)}")
    return f"rank-{rank}" if job.framework in LAUNCHERS else job.programs[rank][0]


def process_log(run: RunDir, job: Job, process: str, found: Iterable[str]) -> str:
    """The name of a process' log; `found` are the logs that there are."""
    name = f"{process}-0" if process in EVERYWHERE else process
    ranks = [name for name, _, _ in job.programs]
    others = [f"ps-{index}" for index in range(job.ps)]
    others += [f"setup-{node}" for node in range(job.nodes + job.ps) if job.setup]
    others += sorted({*found} - {*ranks, *others})
    if name not in ranks and name not in others:
        raise RunNotFound(f"{run.id} has no process `{process}`; it has {_some([_ranks(job), *others])}")
    return name


def _ranks(job: Job) -> str:
    if job.alone and job.framework not in LAUNCHERS:
        return "main"
    return f"ranks 0 to {job.ranks - 1}" if job.ranks > 1 else "rank 0 alone"


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:SHOWN]) + (", ..." if len(shown) > SHOWN else "")


def _written(run: RunDir) -> float:
    """When the job of a run was written down; 0 where there is no run (yet, or any more)."""
    try:
        return os.stat(run.job).st_mtime if os.path.exists(run.run) else 0.0
    except OSError:
        return 0.0


def _age(run_id: str, written: float) -> tuple[str, float]:
    """Sorts ids by the time that they carry, and those of one second by when their jobs were written down."""
    parts = run_id.rsplit("-", 3)
    return ("-".join(parts[1:3]) if len(parts) == 4 else "", written)

"""The runs and benchmarks below one home, found by the names that people write."""

from __future__ import annotations

import os

from muster.dataclass import dataclass
from muster.launch.names import RunNotFound, some
from muster.records.files import read_object
from muster.records.layout import BenchDir, RunDir, bench_dir, benches_dir, run_dir, runs_dir
from muster.records.untrusted import number


@dataclass(frozen=True)
class RunStore:
    home: str

    def run_ids(self) -> list[str]:
        """The ids of all runs, the newest first. A directory is a run once it says so: before, it is just being made."""
        try:
            names = os.listdir(runs_dir(self.home))
        except (FileNotFoundError, NotADirectoryError):
            return []
        ages = {name: _written(run_dir(self.home, name)) for name in names if not name.startswith(".")}
        return sorted(
            (name for name, written in ages.items() if written), key=lambda name: _age(name, ages[name]), reverse=True
        )

    def find(self, name: str) -> RunDir:
        """The run of an id, of a unique beginning of one, or the `last` one. Raises RunNotFound."""
        ids = self.run_ids()
        if name in ids:
            return run_dir(self.home, name)
        matching = ids[:1] if name == "last" else [run_id for run_id in ids if name and run_id.startswith(name)]
        if len(matching) == 1:
            return run_dir(self.home, matching[0])
        if matching:
            raise RunNotFound(f"`{name}` could be {len(matching)} runs ({some(sorted(matching))}); write more of the id")
        hint = "`muster ps` lists them" if ids else f"there are none in {self.home}"
        raise RunNotFound(f"no run is called `{name}`; {hint}")

    def bench_ids(self) -> list[str]:
        """The ids of all benchmarks, the newest first."""
        try:
            found = [bench_dir(self.home, name) for name in os.listdir(benches_dir(self.home))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        there = [bench for bench in found if os.path.exists(bench.bench)]
        ages = {bench.id: number(read_object(bench.bench).get("created")) or 0.0 for bench in there}
        return sorted(ages, key=lambda name: (ages[name], name), reverse=True)

    def runs_of(self, bench: BenchDir) -> list[RunDir]:
        """The runs that the record of a benchmark lists."""
        runs = read_object(bench.bench).get("runs")
        return [run_dir(self.home, run) for run in runs if isinstance(run, str)] if isinstance(runs, list) else []

    def find_measured(self, name: str) -> BenchDir | RunDir:
        """The benchmark or the run of an id or a unique beginning of one; `last` is what the newest run was made for."""
        benches, runs = self.bench_ids(), self.run_ids()
        if name == "last" and runs:
            measured = (bench_dir(self.home, bench) for bench in benches)
            made_for = (bench for bench in measured if runs[0] in (run.id for run in self.runs_of(bench)))
            return next(made_for, run_dir(self.home, runs[0]))
        if name in benches:
            return bench_dir(self.home, name)
        matching = [bench for bench in benches if name and bench.startswith(name)]
        if not matching or name in runs:
            return self.find(name)
        matching += [run for run in runs if run.startswith(name)]
        if len(matching) > 1:
            shown = some(sorted(matching))
            raise RunNotFound(f"`{name}` could be {len(matching)} benches and runs ({shown}); write more of the id")
        return bench_dir(self.home, matching[0])


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

"""Paths of an unpacked package, and the files that a run leaves in its `log/` and `result/`."""

import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.bench.bundle.check import export
from muster.bench.errors import ResultError
from muster.bench.model.result import Result
from muster.bench.runner import Measurement
from muster.config import ConfigError
from muster.records.files import read_json, write_json
from muster.records.layout import run_dir
from muster.records.untrusted import is_regular

RESULT_FILES = re.compile(r"throughput_(rank_)?\d+(\.json)?|accuracy(_\d+)?\.json|ranksize\.json|eval_acc\.log")
STUBS_LOGS = ("stub.log", "benchmark.log")  # of ais-bench-stubs itself
JOB_LOGS = re.compile(r"job[0-9a-f]{8}-job-.*\.log|modelarts-job-.*\.(log|txt)|train_parallel\d+\.log")


class PackageLayout:
    def __init__(self, base: str) -> None:
        self.base = Path(base)
        self.job = self.base / "tmp" / "job.yaml"
        self.lock = self.base / "tmp" / "lock"
        self.log = self.base / "log"
        self.results = self.base / "result"

    def make_folders(self) -> None:
        for folder in (self.job.parent, self.log, self.results):
            folder.mkdir(exist_ok=True)

    @property
    def result_text(self) -> bytes:
        """The file of the result as it is; empty where there is none."""
        path = self.results / "result.json"
        return path.read_bytes() if path.is_file() else b""

    @property
    def result(self) -> Result | None:
        """The result of the last run that has one. Raises ConfigError where it is damaged."""
        found = read_json(str(self.results / "result.json"))
        try:
            return Result.from_json(found) if found is not None else None
        except ResultError as error:
            raise ConfigError(f"{self.results}/result.json is damaged: {error}; run the training again") from None

    def bundle(self, bench: str) -> Path:
        return self.results / f"{bench}.tar.gz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the package: two runs would write into the same logs and results."""
        with self.lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(f"{self.base} is running already; wait for it, or unpack the package once more") from None
            yield

    def remove_stubs_logs(self) -> None:
        """Removes the logs of ais-bench-stubs of an earlier run."""
        for name in STUBS_LOGS:
            (self.log / name).unlink(missing_ok=True)

    def remove_results(self) -> None:
        """Removes the logs and results of an earlier run, except its bundle."""
        for path in self.log.iterdir():
            if JOB_LOGS.fullmatch(path.name):
                path.unlink()
        for path in self.results.iterdir():
            if path.name in ("result.json", "result.log") or RESULT_FILES.fullmatch(path.name):
                path.unlink()
            elif path.is_dir() and path.name.isdigit():
                shutil.rmtree(path)

    def store(self, measurement: Measurement, result: Result) -> None:
        """Writes a result as `result.json`, as AISBench's files and `result.log`, and as a bundle."""
        write_json(str(self.results / "result.json"), result.to_json())
        info = result.train_result_info
        write_json(str(self.results / "result.log"), {key: info[key] for key in ("throughput_ratio", "accuracy")})
        home = measurement.dir.home
        for run in measurement.record.runs:
            if attempt := run_dir(home, run).last_attempt():
                for index in attempt.node_indexes():
                    _copy(Path(attempt.node(index).results), self.results)
        export(Path(measurement.dir.path), Path(home), self.bundle(measurement.dir.id), None)


def _copy(results: Path, target: Path) -> None:
    """Copies AISBench's result files of a node: those in `results`, and those of its outputs in their folders."""
    outputs = sorted((results / "outputs").glob("*")) if (results / "outputs").is_dir() else []
    for root in (results, *outputs):
        for path in sorted([*root.glob("*"), *root.glob("[0-9]*/*")]):
            if RESULT_FILES.fullmatch(path.name) and is_regular(str(path), str(results)):
                copy = target / path.relative_to(root)
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, copy, follow_symlinks=False)

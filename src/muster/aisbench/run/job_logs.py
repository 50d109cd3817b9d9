"""Copies the logs of a run, while it runs, to files in the package's `log/` under the platform's names."""

from __future__ import annotations

from pathlib import Path

from muster.launch.follow import Chunk
from muster.records.files import read_object
from muster.records.layout import RunDir


class JobLogs:
    """Appends whole lines of every process to its log files."""

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

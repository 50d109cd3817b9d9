"""What is known of the jobs of a run: written before a job is created, so that a later supervisor finds it."""

from __future__ import annotations

from typing import Any

from muster.engines.modelarts.node.jobs import JobId
from muster.records.files import read_object, write_json
from muster.records.layout import RunDir
from muster.records.untrusted import number, whole

Log = tuple[int, int, str, int]  # one of a record that goes on: node, number in its frames, name and size

START = "0"  # the place before the first line of a log


class Journal:
    """`modelarts.json` of a run. The supervisor's thread alone writes it."""

    def __init__(self, run: RunDir) -> None:
        self._path = run.service
        self._data = read_object(run.service)

    def _of(self, attempt: int) -> dict[str, Any]:
        found = self._data.setdefault("jobs", {}).setdefault(str(attempt), {})
        return found if isinstance(found, dict) else {}

    @property
    def attempts(self) -> list[int]:
        """The attempts for which a job was created, or may have been."""
        return sorted(int(text) for text in self._data.get("jobs") or {} if text.isdigit() and self.name(int(text)))

    def name(self, attempt: int) -> str:
        """The name under which a job was or may have been created; empty where none was."""
        return str(self._of(attempt).get("name") or "")

    def version(self, attempt: int) -> str:
        return str(self._of(attempt).get("api") or "")

    def job(self, attempt: int) -> JobId | None:
        found = self._of(attempt)
        return JobId(str(found["job"]), str(found.get("version") or "")) if found.get("job") else None

    def created(self, attempt: int) -> float:
        return number(self._of(attempt).get("created")) or 0.0

    def before(self, attempt: int) -> dict[str, Any]:
        """The result files that lay at the outputs before."""
        found = self._of(attempt).get("before")
        return found if isinstance(found, dict) else {}

    def intend(self, attempt: int, api: str, name: str, created: float, before: dict[str, Any]) -> None:
        """Notes that a job of this name is about to be created."""
        self._of(attempt).update(api=api, name=name, created=created, before=before)
        self._write()

    def note(self, attempt: int, job: JobId) -> None:
        self._of(attempt).update(job=job.job, version=job.version)
        self._write()

    def place(self, attempt: int, node: int) -> tuple[str, int]:
        """A place in the log of a node by the service's count, and how many lines were written before it."""
        found = (self._of(attempt).get("logs") or {}).get(str(node))
        if isinstance(found, list) and len(found) == 2:
            return str(found[0]), whole(found[1]) or 0
        return START, 0

    def move(self, attempt: int, node: int, place: str, lines: int) -> None:
        self._of(attempt).setdefault("logs", {})[str(node)] = [place, lines]
        self._write()

    def record(self, attempt: int) -> tuple[int, list[Log]]:
        """How many files of the record were taken, and the logs in them that go on: node, number, name and size of each."""
        found = self._of(attempt).get("record")
        if not isinstance(found, dict):
            return 0, []
        return whole(found.get("taken")) or 0, [(one[0], one[1], one[2], one[3]) for one in found.get("logs") or []]

    def keep_record(self, attempt: int, taken: int, logs: list[Log]) -> None:
        self._of(attempt)["record"] = {"taken": taken, "logs": logs}
        self._write()

    def _write(self) -> None:
        write_json(self._path, self._data)

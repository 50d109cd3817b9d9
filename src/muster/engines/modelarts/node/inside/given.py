"""What the submitter hands to the workers of an attempt, and the names under which the service passes it."""

from __future__ import annotations

from typing import Any

from muster.dataclass import dataclass, field
from muster.job import Job
from muster.records.files import need_json

GIVEN, CODE, RECORD = "muster_given", "muster_code", "muster_record"  # an input each of the service, and an output
FILE = "given.json"


@dataclass(frozen=True)
class Given:
    run: str
    attempt: int
    key: bytes = field(repr=False)  # of this attempt alone
    job: Job

    @classmethod
    def read(cls, path: str) -> Given:
        data = need_json(path)
        return cls(data["run"], data["attempt"], bytes.fromhex(data["key"]), Job.from_json(data["job"]))

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "attempt": self.attempt, "key": self.key.hex(), "job": self.job.to_json()}

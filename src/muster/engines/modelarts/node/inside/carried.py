"""What a job that runs Muster's agent is given: the agent as its code, the user's code and a folder of the attempt as inputs.

The record comes back as an output. The service moves all of it: no key of a store gets into the job.
"""

from __future__ import annotations

import os
import pkgutil
import tempfile
from typing import Any

from muster.dataclass import dataclass
from muster.engines.modelarts.node.inside.given import CODE, FILE, GIVEN, RECORD, Given
from muster.engines.modelarts.options import ModelArtsOptions
from muster.job import Job
from muster.records.files import write_bytes, write_json
from muster.storage import Storage

FOLDER = "muster-agent"  # no name that Python imports
BOOT, AGENT = "muster_boot.py", "agent.pyz"
RESERVED = (GIVEN, CODE, RECORD)


def has_agent(job: Job) -> bool:
    """True if Muster's agent runs in the job; others are started by the service alone."""
    return not job.compat and job.framework != "command"


@dataclass(frozen=True)
class Carried:
    """Where the parts of an attempt lie in the store."""

    run: str
    attempt: int
    agent: str
    code: str
    given: str
    record: str

    @property
    def command(self) -> str:
        """What an image without an engine runs."""
        return f'python3 "$MA_JOB_DIR/{os.path.basename(self.agent.rstrip("/"))}/{BOOT}"'

    @property
    def inputs(self) -> dict[str, str]:
        return {CODE: self.code, GIVEN: self.given}

    @property
    def outputs(self) -> dict[str, str]:
        return {RECORD: self.record}


def places(options: ModelArtsOptions, run_id: str, attempt: int, archive: str, code: str) -> Carried:
    """`archive` is the packed agent, whose name changes with what is in it; `code` the URL of the user's code."""
    store = options.store.rstrip("/")
    digest = os.path.basename(archive).partition(".")[0]
    agent = options.code_dir.rstrip("/") + "/" if options.code_dir else f"{store}/agents/{digest}/{FOLDER}/"
    given, record = (f"{store}/{name}/{run_id}/{attempt}/" for name in ("given", "records"))
    return Carried(run_id, attempt, agent, code, given, record)


def upload(storage: Storage, job: Job, archive: str, code: str, there: Carried) -> None:
    """Puts agent, code, and what the workers have to know, with a key of this attempt's own, into the store."""
    with tempfile.TemporaryDirectory() as folder:
        boot = pkgutil.get_data(__package__, BOOT)
        assert boot is not None
        with open(archive, "rb") as file:
            write_bytes(f"{folder}/{AGENT}", file.read())
        write_bytes(f"{folder}/{BOOT}", boot)
        storage.copy_tree(folder, there.agent, delete=bool(_options(job).code_dir))
    storage.copy_tree(code, there.code)
    with tempfile.TemporaryDirectory() as folder:
        write_json(f"{folder}/{FILE}", Given(there.run, there.attempt, os.urandom(32), job).to_json())
        storage.copy_tree(folder, there.given)


def withdraw(storage: Storage, there: Carried) -> None:
    """Deletes what only the workers of the attempt needed, and its key."""
    storage.remove(there.given.rstrip("/"), recursive=True)


def _options(job: Job) -> Any:
    return job.modelarts or ModelArtsOptions()

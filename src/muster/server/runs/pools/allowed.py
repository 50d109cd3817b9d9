"""What jobs of a pool may name: paths of its machines, options of its engine. Other jobs are refused."""

import os
from collections.abc import Iterator
from typing import Any

from muster.dataclass import fields
from muster.job import Job
from muster.job.data import local_path
from muster.job.source import Finding
from muster.server.runs.pools.pool import Pool

IN_STORE = "put it into the store with `muster cp`, and name its URL"


def refused(job: Job, pool: Pool) -> Iterator[Finding]:
    """Finds what the pool does not allow. The job is as it was written: its pool has added nothing yet."""
    for field, url in _data(job):
        path = local_path(url)
        if path and not _beneath(path, pool.settings.paths):
            yield Finding(field, f"names {path}, and jobs of the pool `{pool.name}` may not name paths there", IN_STORE)
    if job.slurm is not None:
        yield from _options("slurm", job.slurm, pool)
    if job.hosts is not None:
        yield from _options("hosts", job.hosts, pool)


def _data(job: Job) -> Iterator[tuple[str, str]]:
    yield from ((f"inputs.{name}", data.url) for name, data in job.inputs.items())
    yield from ((f"outputs.{name}", data.url) for name, data in job.outputs.items())
    yield "log_url", job.log_url


def _beneath(path: str, folders: tuple[str, ...]) -> bool:
    plain = os.path.normpath(path)
    return any(plain == folder or plain.startswith(folder.rstrip("/") + "/") for folder in folders)


def _options(section: str, options: Any, pool: Pool) -> Iterator[Finding]:
    """Finds options of an engine that differ from their defaults and are not on the list of the pool."""
    defaults = type(options)()
    for field in fields(type(options)):
        given = getattr(options, field.name)
        if given != getattr(defaults, field.name) and field.name not in pool.settings.options:
            message = f"sets `{field.name}`, which the pool `{pool.name}` does not leave to jobs"
            yield Finding(section, message, f'leave it out, or ask for `options = ["{field.name}"]` in the pool')

"""The data of a job on stores: fetches code, checks inputs, makes outputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from muster.job import Job
from muster.job.source import Finding
from muster.records.files import locked
from muster.storage.settings import Settings


class NoCode(Exception):
    """A URL that holds no code."""


def missing(job: Job, settings: Settings) -> list[Finding]:
    """Finds inputs that do not exist, or lack what the job requires of them."""
    if not job.inputs:
        return []
    from muster.storage import Storage

    found = []
    with Storage(settings) as storage:
        for name, data in job.inputs.items():
            if storage.stat(data.url) is None:
                message = f"names {data.url}, which does not exist"
                found.append(Finding(f"inputs.{name}", message, "`muster ls` shows what is there"))
                continue
            for wanted in job.requires.get(name, ()):
                there = storage.stat(f"{data.url.rstrip('/')}/{wanted}")
                if there is None or (wanted.endswith("/") and not there.is_dir):
                    message = f"wants `{wanted}` in `{name}`, and {data.url} has none"
                    found.append(Finding("requires", message, f"`muster ls {data.url}` shows what is there"))
    return found


def not_on_stores(job: Job, settings: Settings) -> list[Finding]:
    """Finds data that lies on this machine, or in its embedded store, where nodes do not see either."""
    data = [(f"inputs.{name}", data.url) for name, data in job.inputs.items()]
    data += [(f"outputs.{name}", data.url) for name, data in job.outputs.items()]
    data += [("log_url", job.log_url)] if job.log_url else []
    found = []
    for field, url in data:
        if _is_here(url):
            hint = "put it into a store that they reach, or name a path of theirs in `parameters`"
            found.append(Finding(field, f"names {url} on this machine, which its hosts do not see", hint))
        elif not settings.access(url.partition("://")[0]).endpoint:
            message = f"names {url}, which lives on this machine as no endpoint is set, and its hosts do not reach it"
            found.append(Finding(field, message, "set the endpoint of the store below [storage] in config.toml"))
    return found


def make_outputs(job: Job, settings: Settings) -> None:
    """Makes the outputs of a program that gets their URLs: on its platform they exist, and many programs read them first.

    Those on this machine are made in any case: in directories that each node has for itself, it is shown only what is there.
    """
    jobs = [job.only(index) for index in range(job.nodes)] if job.apart else [job]
    outputs = [output.url for each in jobs for output in each.outputs.values()]
    wanted = outputs if job.compat == "modelarts-v1" else [url for url in outputs if _is_here(url)]
    if _is_here(job.log_url):
        wanted.append(job.log_url)
    if not wanted:
        return
    from muster.storage import Storage

    with Storage(settings) as storage:
        for url in wanted:
            storage.make_dir(url)


def _is_here(url: str) -> bool:
    return bool(url) and ("://" not in url or url.startswith("file://"))


def code(job: Job, settings: Settings, say: Callable[[str], None]) -> str:
    """The directory with the code: that of the job, or a copy of what its URL holds, of which only changes are fetched."""
    if "://" not in job.code:
        return job.code
    from muster.storage import Storage

    with Storage(settings) as storage:
        found = storage.stat(job.code)
        if found is None or not found.is_dir:
            raise NoCode(f"names {job.code}, which {'is a single file' if found else 'does not exist'}")
        say(f"fetching {job.code}")
        os.makedirs(settings.home, mode=0o700, exist_ok=True)
        folder = f"{os.path.realpath(settings.home)}/fetched/{hashlib.sha256(job.code.encode()).hexdigest()[:16]}"
        os.makedirs(folder, exist_ok=True)
        with locked(folder):  # another process may fetch the same code
            storage.copy_tree(job.code, folder, delete=True)
    return folder

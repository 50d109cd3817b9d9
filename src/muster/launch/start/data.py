"""The data of a job on stores: fetches code, checks inputs, makes outputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from muster.job import Job
from muster.job.data import local_path
from muster.job.source import Finding
from muster.records.files import locked
from muster.storage.settings import Settings

Rights = Callable[[str], AbstractContextManager[None]]
"""With which what lies at a URL is looked at."""


def own_rights(url: str) -> AbstractContextManager[None]:
    """Those of this process."""
    return nullcontext()


class NoCode(Exception):
    """A URL that holds no code."""


def missing(job: Job, settings: Settings, rights: Rights = own_rights) -> list[Finding]:
    """Finds inputs that do not exist, or lack what the job requires of them."""
    if not job.inputs:
        return []
    from muster.storage import Storage

    found = []
    with Storage(settings) as storage:
        for name, data in job.inputs.items():
            with rights(data.url):
                lacking = storage.stat(data.url) is None
            if lacking:
                message = f"names {data.url}, which does not exist"
                found.append(Finding(f"inputs.{name}", message, "`muster ls` shows what is there"))
                continue
            for wanted in job.requires.get(name, ()):
                with rights(data.url):
                    there = storage.stat(f"{data.url.rstrip('/')}/{wanted}")
                if there is None or (wanted.endswith("/") and not there.is_dir):
                    message = f"wants `{wanted}` in `{name}`, and {data.url} has none"
                    found.append(Finding("requires", message, f"`muster ls {data.url}` shows what is there"))
    return found


def unseen(job: Job) -> list[Finding]:
    """Finds paths of this machine that a program on another one is given as they are: its platform copies no data."""
    if job.compat != "modelarts-v1":
        return []
    data = [(f"inputs.{name}", data.url) for name, data in job.inputs.items()]
    data += [(f"outputs.{name}", data.url) for name, data in job.outputs.items()]
    hint = "put it into a store, as in `obs://bucket/data`, or name a path of theirs in `parameters`"
    message = "names {} on this machine, and programs of modelarts-v1 get that path on hosts that do not have it"
    return [Finding(field, message.format(url), hint) for field, url in data if local_path(url)]


def make_outputs(job: Job, settings: Settings, rights: Rights = own_rights) -> None:
    """Makes the outputs of a program that gets their URLs: on its platform they exist, and many programs read them first.

    Those on this machine are made in any case: in directories that each node has for itself, it is shown only what is there.
    """
    jobs = [job.only(index) for index in range(job.nodes)] if job.apart else [job]
    outputs = [output.url for each in jobs for output in each.outputs.values()]
    wanted = outputs if job.compat == "modelarts-v1" else [url for url in outputs if local_path(url)]
    if local_path(job.log_url):
        wanted.append(job.log_url)
    if not wanted:
        return
    from muster.storage import Storage

    with Storage(settings) as storage:
        for url in wanted:
            with rights(url):
                storage.make_dir(url)


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

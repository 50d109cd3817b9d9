"""Checks that the outputs of a job can be written before it starts: hours of training should not end unsaved."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from muster.job import Job
from muster.job.source import Finding
from muster.launch.start.data import Rights, own_rights
from muster.storage.errors import InvalidName, InvalidRequest, NotFound, StorageError
from muster.storage.local_store import find_local
from muster.storage.settings import Settings
from muster.storage.urls import parse

AT_ONCE = 16
LIMIT = 120.0  # seconds for all probes together


def unwritable(job: Job, settings: Settings, say: Callable[[str], None], rights: Rights = own_rights) -> list[Finding]:
    """Finds URLs that the job cannot write to. Raises StorageError where a store cannot be used.

    A store gets a small object that is removed again; on this machine nothing is left that could be seen.
    """
    targets = {f"outputs.{name}": output.url for name, output in job.outputs.items()}
    if job.log_url:
        targets["log_url"] = job.log_url
    _warn_of_shared(job, targets, settings, say)
    failed, left = _probed(set(targets.values()), settings, rights)
    for url in left:
        say(f"{url} was written to see whether that can be done, and the keys may not remove it; it can be removed at any time")
    found = [(field, url, failed[url]) for field, url in targets.items() if url in failed]
    mistakes = [one for one in found if isinstance(one[2], InvalidRequest | NotFound | InvalidName)]
    for field, url, error in () if mistakes else found:
        to = "" if field == "log_url" else " to"
        raise type(error)(f"the {_shown(field)}{to} {url} cannot be saved: {error}")
    return [_finding(*mistake) for mistake in mistakes]


def _shown(field: str) -> str:
    return field if field == "log_url" else f"output `{field.removeprefix('outputs.')}`"


def _warn_of_shared(job: Job, targets: Mapping[str, str], settings: Settings, say: Callable[[str], None]) -> None:
    inputs = {_identity(data.url, settings): name for name, data in job.inputs.items()}
    for field, url in targets.items():
        if other := inputs.get(_identity(url, settings)):
            say(f"the {_shown(field)} goes to {url}, which is the input `{other}`: what is written lands among what is read")


def _identity(url: str, settings: Settings) -> Hashable:
    parsed = parse(url)
    if found := find_local(settings, parsed):
        return found[1]
    return settings.access(parsed.scheme), parsed.bucket, parsed.path


def _probed(urls: Iterable[str], settings: Settings, rights: Rights) -> tuple[dict[str, StorageError], list[str]]:
    """Tries to write to each URL; returns the errors by URL, and the probes that could not be removed."""
    failed: dict[str, StorageError] = {}
    left: list[str] = []
    remote: dict[Hashable, str] = {}
    for url in sorted(urls):
        try:
            if found := find_local(settings, parse(url)):
                with rights(url):
                    found[0].probe(found[1])
            else:
                remote.setdefault(_identity(url, settings), url)
        except StorageError as error:
            failed[url] = error
    if remote:
        _probe_stores(list(remote.values()), settings, failed, left)
    return failed, left


def _probe_stores(urls: Sequence[str], settings: Settings, failed: dict[str, StorageError], left: list[str]) -> None:
    from muster.storage import Progress, Storage
    from muster.storage.transfer.worker_pool import for_each

    def probe(url: str) -> None:
        try:
            left.extend(filter(None, [storage.probe(url)]))
        except StorageError as error:
            failed[url] = error

    with Storage(settings) as storage:
        for_each(probe, urls, min(AT_ONCE, len(urls)), Progress(), LIMIT)


def _finding(field: str, url: str, error: StorageError) -> Finding:
    """An error as a problem of the job."""
    what, _, hint = str(error).rpartition("; ")
    return Finding(field, f"cannot save to {url}: {what}", hint)

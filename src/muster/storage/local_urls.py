"""URLs that live on this machine: paths, and buckets of the embedded store. Asking for them loads no client of a store."""

from __future__ import annotations

import os

from muster.storage.local_store import Files
from muster.storage.settings import Settings
from muster.storage.urls import Url

PLAIN = {"": Files(), "file": Files(prefix="file://")}


def embedded(settings: Settings, scheme: str) -> Files:
    """The store that is a directory of buckets."""
    return Files(os.path.join(os.path.abspath(settings.home), "store", ""), f"{scheme}://")


def here(settings: Settings, url: Url) -> tuple[Files, str] | None:
    """The files of a URL and its path among them; None where it goes to an endpoint."""
    if url.is_file:
        return PLAIN[url.scheme], url.path
    if settings.access(url.scheme).endpoint:
        return None
    store = embedded(settings, url.scheme)
    return store, (store.root + f"{url.bucket}/{url.path}").rstrip("/")

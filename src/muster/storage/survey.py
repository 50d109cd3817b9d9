"""Small files of known names at URLs: noted before a program starts, and copied when it has written them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from muster.storage.errors import NotFound, StorageError
from muster.storage.model import FileInfo
from muster.storage.storage import Storage

MOST_BYTES = 1 << 20  # of one file: each holds a number


def survey(storage: Storage, url: str, names: str) -> Iterator[tuple[str, FileInfo]]:
    """Yields the files of these names at a URL and in its numbered folders, by their path below it."""
    base = url.rstrip("/")
    for entry in _entries(storage, base):
        if not entry.is_dir and re.fullmatch(names, entry.name):
            yield entry.name, entry
        elif entry.is_dir and entry.name.strip("/").isdigit():
            folder = entry.name.strip("/")
            for inner in _entries(storage, f"{base}/{folder}"):
                if not inner.is_dir and re.fullmatch(names, inner.name):
                    yield f"{folder}/{inner.name}", inner


def _entries(storage: Storage, url: str) -> list[FileInfo]:
    try:
        return list(storage.list(url))
    except NotFound:
        return []


def note(storage: Storage, names: str, urls: Sequence[str]) -> dict[str, dict[str, list[Any]]]:
    """The files at URLs now, by which later ones are recognised."""
    return {url: {path: _mark(entry) for path, entry in survey(storage, url, names)} for url in urls}


def _mark(entry: FileInfo) -> list[Any]:
    return [entry.etag, entry.mtime, entry.size]


def harvest(
    storage: Storage, before: dict[str, dict[str, list[Any]]], names: str, sources: Sequence[tuple[str, str]], target: str
) -> list[dict[str, Any]]:
    """Copies the files that were written since `before` from named URLs to a directory; returns all files there, for JSON."""
    found: list[dict[str, Any]] = []
    for name, url in sources:
        try:
            for path, entry in survey(storage, url, names):
                stale = before.get(url, {}).get(path) == json.loads(json.dumps(_mark(entry)))
                where = {"output": name, "path": path, "url": "{}/{}".format(url.rstrip("/"), path)}
                found.append({**where, "size": entry.size, "modified": entry.mtime, "stale": stale})
                if storage.through_link(url, path):
                    found[-1]["error"] = "it is a symbolic link, not a regular file"
                elif not stale and entry.size > MOST_BYTES:
                    found[-1]["error"] = f"it has {entry.size} bytes, where a number is expected"
                elif not stale:
                    _keep(storage, where["url"], entry.mtime, f"{target}/{name}/{path}")
        except StorageError as error:
            found.append({"output": name, "path": "", "url": url, "error": str(error)})
    return found


def _keep(storage: Storage, url: str, mtime: float, target: str) -> None:
    data = storage.read(url)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)
    os.utime(target, (mtime, mtime))

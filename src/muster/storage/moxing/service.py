"""The service behind `moxing.file`: carries out the requests of ranks in terms of storage."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from itertools import islice
from typing import Any, BinaryIO, Callable

from muster.dataclass import dataclass, field
from muster.storage import FileInfo, InvalidRequest, NotFound, Progress, Settings, Storage, StorageError, is_url
from muster.storage.errors import AccessDenied, Cancelled, NoSpace, Unreachable
from muster.storage.moxing.auth import StorageCache
from muster.storage.moxing.protocol import ClientConnection, Disconnected, DisconnectWatcher
from muster.storage.moxing.single_flight import SingleFlight

TREES = 16  # copied at once, each with several connections: more would only compete
FILES = 32  # copied at once; they do not wait for trees, which may take hours
READS = 64
POLL = 0.5
PART = 1000  # entries of a listing in one answer
APPENDED = 16 << 20  # what is larger is appended through a file, so that memory stays small
STRIPES = 64  # objects that are appended to at once
STATUS: dict[type, int] = {AccessDenied: 403, Unreachable: 503, NoSpace: 507}  # the HTTP status of a store


class MoxingError(StorageError):
    """An invalid request; `kind` names the exception that the client raises."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class RequestContext:
    """One request of one client, while it is being served."""

    storage: Storage
    client: ClientConnection
    key: str  # the same for requests that use the same keys
    progress: Progress = field(default_factory=Progress)


class MoxingService:
    """Serves requests of any number of clients."""

    def __init__(self, settings: Settings) -> None:
        self._storages = StorageCache(settings)
        self._watcher = DisconnectWatcher()
        self._single_flight = SingleFlight()
        self._trees = threading.BoundedSemaphore(TREES)
        self._files = threading.BoundedSemaphore(FILES)
        self._reads = threading.BoundedSemaphore(READS)
        self._appending = [threading.Lock() for _ in range(STRIPES)]
        self._served: dict[str, Callable[..., Any]] = {
            "stat": self._stat,
            "make_dir": self._make_dir,
            "remove": self._remove,
            "rename": self._rename,
            "copy": self._copy,
            "copy_file": self._copy_file,
            "copy_tree": self._copy_tree,
            "append": self._append,
            "address": self._address,
        }

    def serve(self, request: dict[str, Any], client: ClientConnection) -> None:
        """Answers one request; what goes wrong is an answer too."""
        try:
            storage, key = self._storages.of(request.get("auth"))
            context = RequestContext(storage, client, key)
            with self._watcher.on_end(client, context.progress.cancel):
                self._answer(context, request["do"], request["details"])
        except Disconnected:
            raise
        except Exception as error:
            client.send({"error": _error_message(error)})

    def _answer(self, context: RequestContext, what: str, details: dict[str, Any]) -> None:
        value = None
        if what == "list":
            self._list(context, **details)
        elif what == "read":
            self._read(context, **details)
        elif what in self._served:
            value = self._served[what](context, **details)
        else:
            raise MoxingError("other", f"`{what}` is not known here; the moxing of this run is not that of its agent")
        context.client.send({"value": value})

    def _list(self, context: RequestContext, url: str, recursive: bool) -> None:
        entries = ([entry.name, entry.size, entry.mtime, entry.is_dir] for entry in context.storage.list(url, recursive))
        while part := list(islice(entries, PART)):
            context.client.send({"items": part})

    def _stat(self, context: RequestContext, url: str) -> list[Any] | None:
        entry = _found(context.storage, url)
        return None if entry is None else [entry.size, entry.mtime, entry.is_dir]

    def _address(self, context: RequestContext, host: str) -> str | None:
        """The address that the settings give a host, for the package `modelarts` beside MoXing."""
        return context.storage.addresses.find(host)

    def _make_dir(self, context: RequestContext, url: str, parents: bool) -> None:
        context.storage.make_dir(url, parents)

    def _remove(self, context: RequestContext, url: str, recursive: bool) -> None:
        """Removes a file, and a directory only if `recursive`: MoXing ignores the request otherwise."""
        entry = _found(context.storage, url)
        if entry is not None and (recursive or not entry.is_dir):
            context.storage.remove(url, recursive)

    def _rename(self, context: RequestContext, src: str, dst: str) -> None:
        with _Slot(self._trees, context.client):
            context.storage.rename(src, dst)

    def _read(self, context: RequestContext, url: str, limit: int) -> None:
        """Sends a small object over the socket; without bytes in the answer the client fetches it as a file."""
        with _Slot(self._reads, context.client):
            data = context.storage.read(url, 0, limit + 1)
            if len(data) <= limit:
                context.client.send({"bytes": len(data)}, data)

    def _copy(self, context: RequestContext, src: str, dst: str) -> None:
        if _need(context.storage, src).is_dir:
            text = f"{src} is a directory and mox.file.copy copies one file; use mox.file.copy_parallel"
            raise MoxingError("directory", text)
        self._copy_file(context, src, _target(context.storage, src, dst))

    def _copy_file(self, context: RequestContext, src: str, dst: str) -> None:
        what = ("file", src, dst)
        self._shared(context, what, self._files, lambda: context.storage.copy_file(src, dst, progress=context.progress))

    def _copy_tree(self, context: RequestContext, src: str, dst: str, names: list[str] | None) -> None:
        if not _need(context.storage, src).is_dir:
            self._copy_file(context, src, _target(context.storage, src, dst))
            return
        there = context.storage.stat(dst)
        if there is not None and not there.is_dir:
            raise MoxingError("duplicate", f"{dst} is a file and {src} a directory; choose another destination")
        what = ("tree", src, dst, None if names is None else tuple(names))
        left: list[StorageError] = []

        def copy() -> None:
            context.storage.copy_tree(src, dst, names=names, progress=context.progress, left=left)
            if left:
                more = f", and {len(left) - 1} more were left out" if left[1:] else ""
                raise type(left[0])(f"{left[0]} (all others are copied{more})")

        try:
            self._shared(context, what, self._trees, copy)
        except InvalidRequest as error:  # object stores can hold both `a` and `a/b`, a disk cannot
            raise MoxingError("duplicate", str(error)) from None

    def _shared(
        self, context: RequestContext, what: tuple[Any, ...], slots: threading.BoundedSemaphore, copy: Callable[[], object]
    ) -> None:
        def transfer() -> None:
            with _Slot(slots, context.client):
                copy()

        self._single_flight.do((context.key, *what), transfer, context.client.disconnected)

    def _append(self, context: RequestContext, path: str, offset: int, url: str) -> None:
        """Appends to an object, one client after the other: most stores can only replace the whole object."""
        with self._appending[hash(url) % STRIPES], _Slot(self._files, context.client):
            if not is_url(path):
                _append_file(context.storage, path, offset, url)
                return
            with tempfile.TemporaryDirectory(prefix="muster-") as folder:
                added = os.path.join(folder, "added")
                context.storage.copy_file(path, added, progress=context.progress)
                _append_file(context.storage, added, offset, url)


class _Slot:
    """Waits for one of a number of slots; raises Cancelled when the client disconnects before one is free."""

    def __init__(self, slots: threading.BoundedSemaphore, client: ClientConnection) -> None:
        self._slots = slots
        self._client = client

    def __enter__(self) -> None:
        while not self._slots.acquire(timeout=POLL):
            if self._client.disconnected():
                raise Cancelled("the client has ended")

    def __exit__(self, *unused: object) -> None:
        self._slots.release()


def _found(storage: Storage, url: str) -> FileInfo | None:
    """The file or directory at a URL; with a slash at its end only a directory."""
    entry = storage.stat(url)
    return None if entry is None or (url.endswith("/") and not entry.is_dir) else entry


def _need(storage: Storage, url: str) -> FileInfo:
    entry = storage.stat(url)
    if entry is None:
        raise NotFound(f"there is nothing at {url}; check the path")
    return entry


def _target(storage: Storage, src: str, dst: str) -> str:
    """The destination of a file: in a directory it keeps its name."""
    there = storage.stat(dst)
    if dst.endswith("/") or (there is not None and there.is_dir):
        return "{}/{}".format(dst.rstrip("/"), src.rstrip("/").rpartition("/")[2])
    return dst


def _append_file(storage: Storage, path: str, offset: int, url: str) -> None:
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(APPENDED + 1)
        if len(data) <= APPENDED:
            storage.append(url, data)
            return
        file.seek(offset)
        _append_much(storage, file, url)


def _append_much(storage: Storage, file: BinaryIO, url: str) -> None:
    """Builds the whole object in a file, so that memory stays small."""
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        whole = os.path.join(folder, "whole")
        if storage.stat(url) is not None:
            storage.copy_file(url, whole)
        with open(whole, "ab") as target:
            shutil.copyfileobj(file, target, APPENDED)
        storage.copy_file(whole, url)


def _error_message(error: Exception) -> dict[str, Any]:
    """An error in the form in which it is sent to the client."""
    if isinstance(error, OSError):
        what = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        return {"kind": "system", "number": error.errno, "text": what}
    kind = error.kind if isinstance(error, MoxingError) else "missing" if isinstance(error, NotFound) else "other"
    known = isinstance(error, StorageError)
    text = str(error) if known else f"{type(error).__name__}: {error}; this is a defect of Muster"
    return {"kind": kind, "text": text, "status": STATUS.get(type(error))}

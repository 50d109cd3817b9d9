"""Uploads in parts. Parts of one size are written to their final place in one file, which becomes the object without a copy.

A part has a name of its own once it is durable: `NUMBER.MD5.SIZE` is a file with its bytes; with `.placed` at the end it is
empty, and they stand in `data` at (NUMBER - 1) * STRIDE. The first part that came decides that stride (`every-STRIDE`). A
placed part is never overwritten: the same number again gets a file of its own, and then replaces it. Where parts do not fit
together so, the object is copied from them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from muster.server.store import holes
from muster.server.store.drafts import Draft, drafted, sync_folder
from muster.server.store.errors import StoreError

MOST_PARTS = 10_000
MOST_OBJECT = 5 << 40
KEPT = 7 * 86400.0  # seconds until an upload that does not go on is aborted
PRUNED_EVERY = 3600.0
_ID = re.compile(r"[0-9a-f]{32}")
_PART = re.compile(r"([1-9][0-9]{0,4})\.([0-9a-f]{32})\.([0-9]{1,13})(\.placed)?")
_ABOUT, _DATA, _STRIDE = "upload.json", "data", "every-"


@dataclass(frozen=True)
class Upload:
    """An upload that was begun; `headers` are those of the object that it makes."""

    id: str
    bucket: str
    key: str
    headers: dict[str, str]
    begun: float
    folder: str


@dataclass(frozen=True)
class Part:
    number: int
    etag: str
    size: int
    mtime: float
    placed: bool

    @property
    def name(self) -> str:
        return f"{self.number}.{self.etag}.{self.size}" + (".placed" if self.placed else "")


class _State:
    """What this process knows of an upload, so that a part needs no look at all others."""

    def __init__(self, numbers: set[int], stride: int) -> None:
        self.numbers = numbers  # of parts that are there or are being placed
        self.stride = stride  # the distance of parts in the file of all; 0 before the first
        self.placing = 0
        self.ending = False


class Uploads:
    """All uploads below a directory."""

    def __init__(self, folder: str, scratch: str) -> None:
        self._folder, self._scratch = folder, scratch
        os.makedirs(folder, 0o700, exist_ok=True)
        self._places = holes.are_possible(folder)  # else what is left of a part that failed could not be freed
        self._states: dict[str, _State] = {}
        self._lock = threading.Lock()
        self._pruned = 0.0

    def begin(self, bucket: str, key: str, headers: dict[str, str]) -> Upload:
        upload = Upload(os.urandom(16).hex(), bucket, key, headers, time.time(), "")
        folder = f"{self._folder}/{upload.id}"
        os.mkdir(folder, 0o700)
        with open(f"{folder}/{_ABOUT}", "x", encoding="utf-8") as file:
            json.dump([bucket, key, headers, upload.begun], file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        sync_folder(self._folder)
        return upload

    def find(self, bucket: str, key: str, id: str) -> Upload:
        """An upload of this key. Raises StoreError where there is none."""
        found = self._read(id)
        if found is None or (found.bucket, found.key) != (bucket, key):
            raise no_upload()
        return found

    def of_bucket(self, bucket: str) -> list[Upload]:
        """The uploads of a bucket by key and id."""
        found = (self._read(name) for name in os.listdir(self._folder))
        return sorted((one for one in found if one and one.bucket == bucket), key=lambda one: (one.key, one.id))

    def parts(self, upload: Upload) -> list[Part]:
        """The parts that have arrived, by number."""
        return sorted(self._all_parts(upload), key=lambda part: part.number)

    def size(self, upload: Upload) -> int:
        """The bytes of all parts."""
        return sum(part.size for part in self._all_parts(upload))

    @contextmanager
    def receiving(self, upload: Upload, number: int, size: int | None) -> Iterator[PartDraft]:
        """Yields where to write a part to; `commit` makes the part durable."""
        if not 0 < number <= MOST_PARTS:
            raise StoreError("InvalidArgument", f"a part has a number from 1 to {MOST_PARTS}")
        state = self._claim(upload, number, size)
        if state is None:
            with drafted(self._scratch) as draft:
                yield PartDraft(draft, upload, number, placed=False)
            return
        part = None
        try:
            with _placed(upload, (number - 1) * state.stride, size or 0) as draft:
                part = PartDraft(draft, upload, number, placed=True)
                try:
                    yield part
                finally:
                    if not os.path.exists(part.path):
                        holes.punch(draft.descriptor, (number - 1) * state.stride, size or 0)
        finally:
            with self._lock:
                state.placing -= 1
                if part is None or not os.path.exists(part.path):
                    state.numbers.discard(number)

    def _claim(self, upload: Upload, number: int, size: int | None) -> _State | None:
        """Takes the place of a part in the file of all; None if the part needs a file of its own."""
        with self._lock:
            state = self._state(upload)
            if state.ending:
                raise no_upload()
            if not size or not self._places or number in state.numbers:
                return None
            if not state.stride:
                _touch(f"{upload.folder}/{_STRIDE}{size}")
                state.stride = size
            if size > state.stride or number * state.stride > MOST_OBJECT:
                return None
            state.numbers.add(number)
            state.placing += 1
            return state

    @contextmanager
    def ending(self, upload: Upload) -> Iterator[bool]:
        """Ends an upload for all others; yields True if no part is being placed, so that the file of all may be changed."""
        with self._lock:
            state = self._state(upload)
            if state.ending or not os.path.exists(f"{upload.folder}/{_ABOUT}"):
                raise no_upload()
            state.ending = True
            still = not state.placing
        try:
            yield still
        finally:
            with self._lock:
                state.ending = False
                if not state.placing:
                    self._states.pop(upload.id, None)

    def commit(self, part: PartDraft) -> tuple[Part, int]:
        """Makes a part durable and removes an earlier one of its number; returns by how many bytes the upload has grown."""
        os.fsync(part.draft.descriptor)
        done = Part(part.number, part.draft.md5.hexdigest(), part.draft.size, time.time(), part.placed)
        part.path = f"{part.folder}/{done.name}"
        with self._lock:
            new = done.size if not os.path.exists(part.path) else 0
            try:
                if done.placed:
                    _touch(part.path)
                else:
                    os.rename(part.draft.path, part.path)
                    part.draft.kept = True
                    new -= _remove_others(part.folder, done)
            except FileNotFoundError:
                raise no_upload() from None
        sync_folder(part.folder)
        return done, new

    def choose(self, upload: Upload, wanted: Sequence[tuple[int, str]]) -> list[Part]:
        """The parts of an object. Raises StoreError for those that are not there as they are named."""
        there = {(part.number, part.etag): part for part in self._all_parts(upload)}
        if not wanted:
            raise StoreError("MalformedXML", "an object has at least one part; name it")
        if any(first[0] >= second[0] for first, second in pairwise(wanted)):
            raise StoreError("InvalidPartOrder", "the parts are not in the order of their numbers; sort them")
        for number, etag in wanted:
            if (number, etag) not in there:
                raise StoreError("InvalidPart", f"part {number} has not arrived with that ETag; send it again")
        return [there[name] for name in wanted]

    @contextmanager
    def assembling(self, upload: Upload, chosen: Sequence[Part], still: bool) -> Iterator[tuple[Draft, Iterator[int]]]:
        """Yields the draft of the object, and steps that fill it: each is a number of bytes that were copied."""
        stride = _stride_of(upload)
        if still and _fits(chosen, stride):
            with _placed(upload, 0, 0) as draft:
                yield draft, _fill(upload, chosen, draft, stride)
        else:
            with drafted(self._scratch) as draft:
                yield draft, _join(upload, chosen, draft, stride)

    def forget(self, upload: Upload) -> None:
        """Removes an upload: first its record, so that no crash leaves half of one."""
        try:
            os.unlink(f"{upload.folder}/{_ABOUT}")
        except FileNotFoundError:
            pass
        sync_folder(upload.folder)
        shutil.rmtree(upload.folder, ignore_errors=True)

    def stale(self) -> list[Upload]:
        """Uploads that did not go on for a week, looked for once an hour."""
        now = time.time()
        if now - self._pruned < PRUNED_EVERY:
            return []
        self._pruned = now
        return [one for one in map(self._read, os.listdir(self._folder)) if one and now - _touched(one) > KEPT]

    def _state(self, upload: Upload) -> _State:
        if upload.id not in self._states:
            numbers = {part.number for part in self._all_parts(upload)}
            self._states[upload.id] = _State(numbers, _stride_of(upload))
        return self._states[upload.id]

    def _read(self, id: str) -> Upload | None:
        folder = f"{self._folder}/{id}"
        if not _ID.fullmatch(id):
            return None
        try:
            with open(f"{folder}/{_ABOUT}", encoding="utf-8") as file:
                bucket, key, headers, begun = json.load(file)
        except (OSError, ValueError):
            return None
        return Upload(id, bucket, key, headers, begun, folder)

    def _all_parts(self, upload: Upload) -> list[Part]:
        found = []
        stride, end = _stride_of(upload), _size_of(f"{upload.folder}/{_DATA}")
        try:
            for entry in os.scandir(upload.folder):
                if match := _PART.fullmatch(entry.name):
                    part = Part(int(match[1]), match[2], int(match[3]), entry.stat().st_mtime, bool(match[4]))
                    if not part.placed or (part.number - 1) * stride + part.size <= end:
                        found.append(part)
        except FileNotFoundError:
            raise no_upload() from None
        return found


class _Placed(Draft):
    """A place in the file of all parts; more than it has room for is refused before it is written."""

    def __init__(self, path: str, start: int, room: int) -> None:
        super().__init__(path, os.O_RDWR | os.O_CREAT)
        self._room = room
        os.lseek(self.descriptor, start, os.SEEK_SET)

    def write(self, piece: memoryview | bytes) -> None:
        if self.size + len(piece) > self._room:
            raise StoreError("IncompleteBody", "the body is longer than it said; send it again")
        super().write(piece)


@contextmanager
def _placed(upload: Upload, start: int, room: int) -> Iterator[Draft]:
    try:
        draft = _Placed(f"{upload.folder}/{_DATA}", start, room)
    except FileNotFoundError:
        raise no_upload() from None
    try:
        yield draft
    finally:
        os.close(draft.descriptor)


class PartDraft:
    """A part while it arrives; `path` is its name once it is there."""

    def __init__(self, draft: Draft, upload: Upload, number: int, placed: bool) -> None:
        self.draft, self.number, self.placed = draft, number, placed
        self.folder = upload.folder
        self.path = ""


def _fits(chosen: Sequence[Part], stride: int) -> bool:
    """True if the parts stand one behind the other in the file of all, or can be put there."""
    return (
        any(part.placed for part in chosen)
        and [part.number for part in chosen] == list(range(1, len(chosen) + 1))
        and all(part.size == stride for part in chosen[:-1])
    )


def _fill(upload: Upload, chosen: Sequence[Part], draft: Draft, stride: int) -> Iterator[int]:
    """Puts parts with files of their own into the file of all."""
    for part in chosen:
        if not part.placed:
            os.lseek(draft.descriptor, (part.number - 1) * stride, os.SEEK_SET)
            yield from _copied(upload, part, draft, 0)
    draft.size = (len(chosen) - 1) * stride + chosen[-1].size
    os.ftruncate(draft.descriptor, draft.size)


def _join(upload: Upload, chosen: Sequence[Part], draft: Draft, stride: int) -> Iterator[int]:
    for part in chosen:
        yield from _copied(upload, part, draft, (part.number - 1) * stride if part.placed else 0)


def _copied(upload: Upload, part: Part, draft: Draft, start: int) -> Iterator[int]:
    source = os.open(f"{upload.folder}/{_DATA if part.placed else part.name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from draft.copy_from(source, start, part.size)
    finally:
        os.close(source)


def _remove_others(folder: str, part: Part) -> int:
    """Removes what was sent before under the number of a part; returns its bytes."""
    removed = 0
    for name in os.listdir(folder):
        match = _PART.fullmatch(name)
        if match and int(match[1]) == part.number and name != part.name:
            os.unlink(f"{folder}/{name}")
            removed += int(match[3])
    return removed


def _stride_of(upload: Upload) -> int:
    """The distance of parts in the file of all, which is the name of an empty file; 0 where there is none."""
    try:
        found = [name for name in os.listdir(upload.folder) if name.startswith(_STRIDE)]
    except FileNotFoundError:
        raise no_upload() from None
    return int(found[0][len(_STRIDE) :]) if found else 0


def _touch(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise no_upload() from None


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def no_upload() -> StoreError:
    return StoreError("NoSuchUpload", "there is no such upload, or it has ended; begin it again")


def _touched(upload: Upload) -> float:
    try:
        return os.stat(upload.folder).st_mtime
    except FileNotFoundError:
        return time.time()

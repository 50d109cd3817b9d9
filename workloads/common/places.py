"""Where data is read and checkpoints are written: directories, or URLs that MoXing copies; plain Python."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import seat
from common.labels import Common, Wrong

WAIT = 0.2  # seconds between looks at whether another rank of the node has fetched or made the data
ELSEWHERE = "Make room, or name another directory with --train_url."


def data(settings: Common, required: bool = True) -> Path:
    """The directory with the data; a URL is fetched once per node into the node's cache."""
    told = settings.data_url or settings.data_path or _above(os.environ.get("TRAIN_DATA_PATH", "").rstrip("/"))
    if "://" in told:
        return _fetched(told)
    folder = Path(os.path.expandvars(told or "."))
    if required and not (told and folder.is_dir()):
        raise Wrong(f"There is no directory `{told}` with data. Name one with --data_path or --data_url.")
    return folder


def made(settings: Common, make: Callable[[Path], None]) -> Path:
    """Data that is made where there is none; the first rank of a node does it, the others wait until it is complete."""
    if not (settings.data_url or settings.data_path):
        raise Wrong("Data is to be made, and nothing says where. Name a directory with --data_path.")
    folder = data(settings, required=False)
    try:
        if seat.local_rank() == 0:
            make(folder)
    except OSError as error:
        raise Wrong(f"Data cannot be made in {folder}: {reason(error)}. Make room, or name another directory.") from None
    while not folder.exists():
        time.sleep(WAIT)
    return folder


def _above(train: str) -> str:
    """The directory that has a train/; another than one of that name stands for itself."""
    return os.path.dirname(train) or "." if os.path.basename(train) == "train" else train


def checkpoints(settings: Common) -> Path:
    """Where checkpoints lie: where all attempts of the run see them, and no other run does; without Muster, in train_url."""
    shared, server = os.environ.get("MUSTER_SHARED", ""), seat.server()
    if shared or not settings.train_url or "://" in settings.train_url:
        return Path(shared, "checkpoints" + (f"-{server}" if server else ""))
    return Path(_target(settings))


def prepare(settings: Common) -> None:
    """Makes the directories for checkpoints, and sees now rather than hours later whether a file can be written there."""
    for folder in (checkpoints(settings), *([Path(_target(settings))] if "://" not in _target(settings) else [])):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise Wrong(f"Checkpoints cannot be written to {folder}: {error.strerror}. {ELSEWHERE}") from None


def unwritable(target: Path, error: Exception) -> Wrong:
    """What is said of a checkpoint that could not be written."""
    return Wrong(f"{target} cannot be written: {reason(error)}. {ELSEWHERE}")


def foreign(checkpoint: Path) -> Wrong:
    """What is said of a checkpoint that does not fit what is trained."""
    hint = "Train with the same labels, remove it, or name another directory with --train_url."
    return Wrong(f"{checkpoint} is the checkpoint of another network or optimizer. {hint}")


def too_late(checkpoint: Path, step: int, steps: int) -> Wrong:
    """What is said of a checkpoint that has more steps than are asked for."""
    return Wrong(f"{checkpoint} is of step {step:,}, and {steps:,} are asked for. Train for longer, or remove it.")


def reason(error: Exception) -> str:
    """One line, whatever a framework has to say."""
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]


def publish(settings: Common, checkpoint: Path, gone: Sequence[str], last: bool) -> None:
    """Puts a checkpoint into train_url too, where it lies elsewhere, and takes away what is kept no longer.

    Where that fails the training goes on: all is still where its next attempt finds it. Only the last one must arrive.
    """
    to = _target(settings)
    if not settings.train_url or Path(to) == checkpoint.parent:
        return
    try:
        put, remove = (_put_to_url, _remove_from_url) if "://" in to else (_put, _remove)
        put(checkpoint, to)
        for name in gone:
            remove(f"{to}/{name}")
    except Exception as error:  # whatever MoXing raises, and the store behind it
        told = f"{checkpoint} cannot be copied to {to}: {reason(error)}"
        if last:
            raise Wrong(f"{told}. It stays where it is: copy it by hand.") from None
        print(f"{told}; the training goes on", flush=True)


def _target(settings: Common) -> str:
    """Where checkpoints go in the end; servers that train alone write the same names, so each has a folder of its own."""
    to = os.path.expandvars(settings.train_url).rstrip("/") or str(checkpoints(settings))
    return f"{to}/{seat.server()}" if settings.train_url and seat.server() else to


def _put(checkpoint: Path, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=folder) as place:
        copy = os.path.join(place, checkpoint.name)
        try:
            os.link(checkpoint, copy)
        except OSError:  # another file system
            shutil.copyfile(checkpoint, copy)
        os.replace(copy, os.path.join(folder, checkpoint.name))


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _put_to_url(checkpoint: Path, url: str) -> None:
    _moxing().file.copy(str(checkpoint), f"{url}/{checkpoint.name}")


def _remove_from_url(url: str) -> None:
    if _moxing().file.exists(url):
        _moxing().file.remove(url)


@functools.lru_cache(None)
def _fetched(url: str) -> Path:
    """A copy of a URL; the first rank of the node makes it, the others wait for its mark."""
    root = Path(os.environ.get("DLS_LOCAL_CACHE_PATH") or os.environ.get("MUSTER_SHARED") or "cache")
    # Where the cache is the machine's, other runs have theirs beside it, perhaps of other data.
    run, node = os.environ.get("MUSTER_RUN", "here"), os.environ.get("MUSTER_NODE", "0")
    name = f"data-{run}-{node}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"
    target, mark = root / name, root / f"{name}.complete"
    if seat.local_rank() == 0 and not mark.exists():
        moxing = _moxing()
        try:
            target.mkdir(parents=True, exist_ok=True)
            moxing.file.copy_parallel(url, str(target))
            mark.touch()
        except Exception as error:  # whatever MoXing raises, and the store behind it
            raise Wrong(f"{url} cannot be copied to {target}: {reason(error)}. Check --data_url, and the room there.") from None
    while not mark.exists():
        time.sleep(WAIT)
    _delete_last(target, mark)
    return target


def _delete_last(target: Path, mark: Path) -> None:
    """The last rank of the node that ends deletes the copy; one that is killed leaves it to the next attempt."""
    using = os.open(mark, os.O_RDONLY)
    with contextlib.suppress(OSError):  # a file system without locks: it stays
        fcntl.flock(using, fcntl.LOCK_SH)
        atexit.register(_leave, using, target, mark)


def _leave(using: int, target: Path, mark: Path) -> None:
    try:
        fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # others still read
    mark.unlink()
    shutil.rmtree(target, ignore_errors=True)


def _moxing() -> Any:
    try:
        import moxing  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Wrong("A URL needs MoXing, which is not here. Run the job with Muster, or name a directory.") from None
    return moxing

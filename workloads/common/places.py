"""Where data is read and checkpoints are written: directories, or URLs that MoXing copies; plain Python."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
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
        raise Wrong(f"Data cannot be made in {folder}: {error.strerror}. Make room, or name another directory.") from None
    while not folder.exists():
        time.sleep(WAIT)
    return folder


def _above(train: str) -> str:
    """The directory that has a train/; another than one of that name stands for itself."""
    return os.path.dirname(train) if os.path.basename(train) == "train" else train


def checkpoints(settings: Common) -> Path:
    """The directory of this run's checkpoints: train_url, else a directory that all attempts of the run see."""
    if settings.train_url and "://" not in settings.train_url:
        return Path(os.path.expandvars(settings.train_url))
    shared = os.environ.get("MUSTER_SHARED", "")
    server = seat.server()
    return Path(shared, "checkpoints" + (f"-{server}" if server else ""))


def prepare(folder: Path) -> None:
    """Makes a directory for checkpoints, and sees now rather than hours later whether a file can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Wrong(f"Checkpoints cannot be written to {folder}: {error.strerror}. {ELSEWHERE}") from None


def unwritable(target: Path, error: Exception) -> Wrong:
    """What is said of a checkpoint that could not be written."""
    return Wrong(f"{target} cannot be written: {reason(error)}. {ELSEWHERE}")


def reason(error: Exception) -> str:
    """One line, whatever a framework has to say."""
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]


def publish(settings: Common, folder: Path) -> None:
    """Copies the checkpoints to train_url where that is a URL."""
    if "://" in settings.train_url:
        _moxing().file.copy_parallel(str(folder), settings.train_url)


def _fetched(url: str) -> Path:
    """A copy of a URL; the first rank of the node makes it, the others wait for its mark."""
    root = Path(os.environ.get("DLS_LOCAL_CACHE_PATH") or os.environ.get("MUSTER_SHARED") or "cache")
    node = os.environ.get("MUSTER_NODE", "0")
    target, mark = root / f"data-{node}", root / f"data-{node}.complete"
    if seat.local_rank() == 0 and not mark.exists():
        target.mkdir(parents=True, exist_ok=True)
        _moxing().file.copy_parallel(url, str(target))
        mark.touch()
    while not mark.exists():
        time.sleep(WAIT)
    return target


def _moxing() -> Any:
    try:
        import moxing  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Wrong("A URL needs MoXing, which is not here. Run the job with Muster, or name a directory.") from None
    return moxing

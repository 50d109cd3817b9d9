"""Checkpoints that are either whole or not there, and that belong to one run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import torch

from common import places

RUN = os.environ.get("MUSTER_RUN", "")
NAME = "checkpoint-{:09d}.pt"


def save(folder: Path, step: int, state: dict[str, Any], keep: int) -> tuple[Path, list[str]]:
    """Writes a checkpoint under a temporary name and renames it when it is on the disk; older ones beyond `keep` go.

    Returns the checkpoint, and the names of those that are gone.
    """
    target = folder / NAME.format(step)
    try:
        _write(target, {**state, "step": step, "run": RUN})
    except (OSError, RuntimeError) as error:
        raise places.unwritable(target, error) from None
    gone = [path for path in _found(folder) if path != target and _run_of(path) == RUN][max(0, keep - 1) :]
    for old in gone:
        old.unlink(missing_ok=True)
    return target, [old.name for old in gone]


def _write(target: Path, state: dict[str, Any]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob("checkpoint-*.tmp"):  # of a writer that was killed
        left.unlink(missing_ok=True)
    temporary = target.with_suffix(".tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def newest(folder: Path) -> Path | None:
    """The newest checkpoint of this run that can be read."""
    return next((path for path in _found(folder) if _run_of(path) == RUN), None)


def _run_of(path: Path) -> str | None:
    """The run that wrote a checkpoint; none of one that cannot be read, which is told."""
    try:
        return str(load(path)["run"])
    except (OSError, RuntimeError, KeyError, EOFError, ValueError, TypeError, pickle.UnpicklingError) as error:
        print(f"{path} cannot be read and is passed over: {places.reason(error)}", flush=True)
        return None


def load(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return state


def _found(folder: Path) -> list[Path]:
    """All checkpoints, the newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)

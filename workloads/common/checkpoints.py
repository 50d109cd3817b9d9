"""Checkpoints that are either whole or not there, and that belong to one run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

RUN = os.environ.get("MUSTER_RUN", "")
NAME = "checkpoint-{:09d}.pt"


def save(folder: Path, step: int, state: dict[str, Any], keep: int) -> Path:
    """Writes a checkpoint under a temporary name and renames it when it is on the disk; older ones beyond `keep` go."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("checkpoint-*.tmp"):  # of a writer that was killed
        left.unlink(missing_ok=True)
    target = folder / NAME.format(step)
    temporary = target.with_suffix(".tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save({**state, "step": step, "run": RUN}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    others = [path for path in _found(folder) if path != target]  # one that cannot be read may have a higher number
    for old in others[max(0, keep - 1) :]:
        old.unlink(missing_ok=True)
    return target


def newest(folder: Path) -> Path | None:
    """The newest checkpoint of this run that can be read."""
    for path in _found(folder):
        try:
            if load(path)["run"] == RUN:
                return path
        except (OSError, RuntimeError, KeyError, EOFError, ValueError) as error:
            print(f"{path} cannot be read and is passed over: {error}")
    return None


def load(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return state


def _found(folder: Path) -> list[Path]:
    """All checkpoints, the newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)

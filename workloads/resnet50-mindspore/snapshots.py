"""Checkpoints in MindSpore's own format that are either whole or not there, and that belong to one run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn

from common import places

RUN = os.environ.get("MUSTER_RUN", "")
NAME = "checkpoint-{:09d}.ckpt"
SCHEDULE = "learning_rate"  # of all steps, which the labels say and not a checkpoint
_own: set[Path] = set()  # what this process wrote, which need not be read to know whose it is


def of_step(folder: Path, step: int) -> Path:
    """The checkpoint of a step."""
    return folder / NAME.format(step)


def save(
    folder: Path, step: int, training: nn.Cell, keep: int, measured: Sequence[Mapping[str, float]]
) -> tuple[Path, list[str]]:
    """Writes weights, optimizer and what each rank has measured under a temporary name and renames it when it is on the disk.

    Only `keep` stay. Returns the checkpoint, and the names of those that are gone.
    """
    target = of_step(folder, step)
    try:
        _write(target, training, {"run": RUN, "measured": json.dumps(list(measured))})
    except (OSError, RuntimeError) as error:
        raise places.unwritable(target, error) from None
    _own.add(target)
    others = [path for path in _found(folder) if path != target and (path in _own or _run_of(path) == RUN)]
    gone = others[max(0, keep - 1) :]
    for old in gone:
        old.unlink(missing_ok=True)
    return target, [old.name for old in gone]


def _write(target: Path, training: nn.Cell, more: dict[str, str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)  # where nothing but a stop is saved, nobody prepared it
    _sweep(target.parent)  # what a writer that was killed left
    temporary = target.with_name(f"writing-{os.getpid()}.ckpt")  # MindSpore adds .ckpt to names without it
    try:
        ms.save_checkpoint(training, str(temporary), append_dict=more, crc_check=True)
        descriptor = os.open(temporary, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        temporary.replace(target)
    finally:
        _sweep(target.parent)


def _sweep(folder: Path) -> None:
    for left in folder.glob("writing-*"):  # MindSpore has a temporary name of its own for it
        left.unlink(missing_ok=True)


def newest(folder: Path) -> int:
    """The step of the newest checkpoint of this run that can be read; 0 where there is none."""
    own = (path for path in _found(folder) if _run_of(path) == RUN)
    return next((int(path.stem.split("-")[1]) for path in own), 0)


def _run_of(path: Path) -> str | None:
    """The run that wrote a checkpoint; none of one that cannot be read, which is told."""
    try:
        return str(_read(path)["run"])
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        print(f"{path} cannot be read and is passed over: {reason}", flush=True)
        return None


def load(folder: Path, step: int, training: nn.Cell) -> list[dict[str, float]]:
    """Puts weights and optimizer back as they were after a step; returns what each rank had measured."""
    kept = _read(of_step(folder, step))
    measured = json.loads(str(kept["measured"]))
    kept = {name: value for name, value in kept.items() if name not in ("run", "measured", SCHEDULE)}
    try:
        missing, strange = ms.load_param_into_net(training, kept, strict_load=True)
    except (RuntimeError, ValueError, TypeError):  # other shapes
        missing, strange = ["all"], []
    if set(missing) - {SCHEDULE} or strange:
        raise places.foreign(of_step(folder, step))
    return list(measured)


def _read(path: Path) -> dict[str, Any]:
    kept: dict[str, Any] = ms.load_checkpoint(str(path), crc_check=True)
    return kept


def _found(folder: Path) -> list[Path]:
    """All checkpoints, the newest first."""
    return sorted(folder.glob("checkpoint-*.ckpt"), reverse=True)

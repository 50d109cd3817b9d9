"""Checkpoints in MindSpore's own format that are either whole or not there, and that belong to one run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn

RUN = os.environ.get("MUSTER_RUN", "")
NAME = "checkpoint-{:09d}.ckpt"


def save(folder: Path, step: int, training: nn.Cell, keep: int) -> None:
    """Writes weights and optimizer under a temporary name and renames it when it is on the disk; only `keep` stay."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / NAME.format(step)
    temporary = target.with_name(f"writing-{os.getpid()}.ckpt")  # MindSpore adds .ckpt to names without it
    try:
        ms.save_checkpoint(training, str(temporary), append_dict={"run": RUN}, crc_check=True)
        descriptor = os.open(temporary, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    others = [path for path in _found(folder) if path != target]  # one that cannot be read may have a higher number
    for old in others[max(0, keep - 1) :]:
        old.unlink(missing_ok=True)


def newest(folder: Path) -> int:
    """The step of the newest checkpoint of this run that can be read; 0 where there is none."""
    for path in _found(folder):
        try:
            if _read(path)["run"] == RUN:
                return int(path.stem.split("-")[1])
        except (ValueError, RuntimeError, KeyError, OSError) as error:
            print(f"{path} cannot be read and is passed over: {error}", flush=True)
    return 0


def load(folder: Path, step: int, training: nn.Cell) -> None:
    """Puts weights and optimizer back as they were after a step."""
    kept = _read(folder / NAME.format(step))
    del kept["run"]
    missing, _ = ms.load_param_into_net(training, kept, strict_load=True)
    if missing:
        raise RuntimeError(f"The checkpoint of step {step} lacks {', '.join(missing)}")


def _read(path: Path) -> dict[str, Any]:
    kept: dict[str, Any] = ms.load_checkpoint(str(path), crc_check=True)
    return kept


def _found(folder: Path) -> list[Path]:
    """All checkpoints, the newest first."""
    return sorted(folder.glob("checkpoint-*.ckpt"), reverse=True)

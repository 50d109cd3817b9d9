"""A Job as data: what is written of it gives the same Job again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.job.load import load, load_text
from muster.job.written import written


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "true"},
        {"command": ["echo", "a b"], "nodes": 2, "devices": 4, "per": "device", "env": {"A": "1"}, "memory": "1.5G"},
        {"boot": "train.py", "grace": "2s", "time_limit": "1h30m", "parameters": {"lr": "0.10", "word": ""}},
        {"command": "true", "bench": {"repeats": 5, "limits": {"ranks": "5%"}, "targets": {"accuracy": 0.9}, "idle": "3s"}},
        {"command": "true", "inputs": {"data": {"url": "obs://b/d", "access": "env"}}, "outputs": {"out": "obs://b/o"}},
        {"command": "true", "retries": 2, "metrics": {"loss": {"better": "lower"}}, "secrets": ["KEY"]},
        {"command": "true", "slurm": {"partition": "train"}},
    ],
)
def test_what_is_written_gives_the_same_job(fields: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    job = load({"name": "job", **fields}, base=tmp_path).checked()
    assert load_text(json.dumps(written(job)), [], tmp_path, "job.yaml").checked() == job

"""A package that was just imported runs at once: its outputs are there before its program starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import SESSION, package, settings, v2

from conftest import Muster
from traces import embedded

# What many scripts of that platform do first: list the output, fetch what an earlier job left there.
TRAIN = """
import os, sys
arguments = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
if arguments["train_url"].startswith("obs://"):
    import moxing as mox
    print(mox.file.list_directory(arguments["train_url"]))
    mox.file.copy_parallel(arguments["train_url"], "train")
else:
    print(os.listdir(arguments["train_url"]))
"""
GPUS = {"framework_type": "PyTorch", "train_instance_type": "modelarts.vm.gpu.v100", "train_instance_count": 2}
ONCE_PER_NODE = {**SESSION, **GPUS}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["V1", "V2"])
def test_the_first_run_of_a_fresh_import_passes(kind: str, muster: Muster, tmp_path: Path) -> None:
    sections = {"session": ONCE_PER_NODE} if kind == "V1" else {"session_config_v2": v2(ONCE_PER_NODE)}
    shell = f"export MODELARTS_VERSION={kind}\n"
    folder = package(tmp_path / "pack", settings(**sections), shell, **{"code/code/train.py": TRAIN})
    embedded().write("obs://lab-bucket/dataset/imagenet_small/1.bin", b"one")
    assert muster("import", folder, "--here").returncode == 0
    done = muster("run", tmp_path / "job.yaml", "--set", "device=cpu", "--json")
    view = json.loads(done.stdout)
    assert view["state"] == "succeeded", (view["reason"], done.stderr)
    texts = [log.read_text() for log in Path(view["dir"]).glob("attempts/1/nodes/*/logs/rank-*.log")]
    assert texts == ["[]\n", "[]\n"]

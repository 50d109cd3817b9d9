"""Where checkpoints lie and where they go: an attempt goes on after the one before it, wherever train_url is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from resnet_programs import RESNET, TINY, python, pytorch, train
from resnet_programs import cifar as cifar

from conftest import Muster

pytestmark = pytest.mark.timeout(600)
WORDS = (*TINY, "--train_steps=14", "--save_checkpoint_steps=4", "--save_checkpoint_num=2")

# A rank that is killed in its first attempt when it has written one of its checkpoints.
KILLED = f"""
import os, signal, sys
sys.path[:0] = ["{RESNET}", "{RESNET.parent}"]
from common import labels, places
import train

publish = places.publish
def killed(settings, checkpoint, gone, last):
    publish(settings, checkpoint, gone, last)
    if os.environ["MUSTER_ATTEMPT"] == "1" and checkpoint.stem.endswith(os.environ["KILLED_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
places.publish = killed
labels.run(train.main)
"""


@pytest.mark.parametrize("step", ["08", "14"])
def test_the_next_attempt_goes_on_where_train_url_is_an_output(step: str, cifar: Path, tmp_path: Path, muster: Muster) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/killed.py").write_text(KILLED)
    parameters = dict(word[2:].split("=") for word in (*WORDS, f"--data_path={cifar}"))
    job = {"name": "again", "framework": "pytorch", "code": "code", "boot": "killed.py", "retries": 1}
    job |= {"outputs": {"train_url": str(tmp_path / "kept")}, "env": {"KILLED_AT": step}, "parameters": parameters}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    done = muster("run", "job.yaml", PATH=f"{pytorch()}:{os.environ['PATH']}", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"goes on after step {int(step)} of" in done.stdout + done.stderr
    assert "checkpoint-000000014.pt" in {path.name for path in (tmp_path / "kept").rglob("*.pt")}


def test_servers_that_train_alone_keep_their_checkpoints_apart(cifar: Path, tmp_path: Path, muster: Muster) -> None:
    words = [f"--set=parameters.{word[2:]}" for word in (*WORDS, f"--data_path={cifar}", f"--train_url={tmp_path / 'kept'}")]
    words += ["--set=parameters.generate=0", "--set=nodes=2", "--set=bench.scope=server", "--set=bench.targets.accuracy=0"]
    done = muster("bench", RESNET / "small.yaml", *words, PATH=f"{pytorch()}:{os.environ['PATH']}", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    for server in "01":
        names = sorted(path.name for path in (tmp_path / "kept" / server).iterdir())
        assert names == ["checkpoint-000000012.pt", "checkpoint-000000014.pt"]


PUBLISHED = """
import os, sys
from pathlib import Path
from common import places
from common.labels import Common, Wrong

here = Path(sys.argv[1])
settings = Common(train_url=str(here / "kept"))
os.environ["MUSTER_SHARED"] = str(here / "shared")
folder = places.checkpoints(settings)
assert folder == here / "shared/checkpoints", folder
places.prepare(settings)
for name in ("a", "b"):
    (folder / name).write_text(name)
    places.publish(settings, folder / name, ["a"] if name == "b" else [], last=False)
assert [path.name for path in (here / "kept").iterdir()] == ["b"]
(here / "kept").rename(here / "before")
(here / "kept").write_text("in the way")
places.publish(settings, folder / "b", [], last=False)  # which is only said
try:
    places.publish(settings, folder / "b", [], last=True)
    raise SystemExit("a last checkpoint that did not arrive was not told")
except Wrong as wrong:
    assert f"{folder}/b cannot be copied to {here}/kept: " in str(wrong), wrong
try:
    places.prepare(settings)
    raise SystemExit("a place that cannot be written was not told")
except Wrong as wrong:
    assert f"Checkpoints cannot be written to {here}/kept: " in str(wrong), wrong
"""


def test_only_a_last_checkpoint_must_arrive(tmp_path: Path) -> None:
    said = python("-c", PUBLISHED, tmp_path)
    assert said.count("; the training goes on") == 1


def test_a_training_that_comes_to_nothing_ends_and_says_so(cifar: Path, tmp_path: Path) -> None:
    said = train(tmp_path / "run", "--train_steps=14", "--lr_max=1e9", "--use_label_smooth=false", f"--data_path={cifar}")
    assert "loss nan" in said and "eval_loss nan" in said and "Traceback" not in said
    less = train(tmp_path / "run", "--train_steps=3", f"--data_path={cifar}", code=2)
    assert "is of step 14, and 3 are asked for. Train for longer, or remove it." in less

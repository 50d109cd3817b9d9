"""What ModelArts runs before the boot file: ma-pre-start.sh and ma-pre-start.py, in both generations."""

from __future__ import annotations

import pytest

from conftest import Muster, WriteJob
from traces import RunJson, logs, said, stored

BOTH = pytest.mark.parametrize("compat", ["modelarts-v1", "modelarts-v2"])
BOOT = "import os\nprint(os.environ.get('COLOUR'), os.environ.get('GIVEN'), os.path.exists('/tmp/made-by-python') or '-')\n"
SHELL = """
export COLOUR=red-$MUSTER_NODE
NOT_EXPORTED=1
[ -z "$GIVEN" ] && export GIVEN=default
echo "shell in ${PWD##*/}"
"""
PYTHON = """
import os, pathlib
print("python in", os.path.basename(os.getcwd()), os.environ["COLOUR"], os.environ.get("NOT_EXPORTED"))
"""


@BOTH
def test_both_run_once_per_node_and_exports_reach_every_rank(
    compat: str, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    files = {"train.py": BOOT, "ma-pre-start.sh": SHELL, "ma-pre-start.py": PYTHON}
    view = run_json(write_job({"compat": compat, "framework": "pytorch", "nodes": 2, "devices": 2}, **files))
    assert view["state"] == "succeeded", (view["reason"], logs(view, "setup"))
    assert said(view) == [f"red-{rank // 2} default -\n" for rank in range(4)]
    for node, log in enumerate(logs(view, "setup")):
        assert log.splitlines() == [
            "muster: running ma-pre-start.sh",
            "shell in user-job-dir",
            "muster: running ma-pre-start.py",
            f"python in user-job-dir red-{node} None",
        ]


@BOTH
def test_they_lie_beside_the_boot_file_and_come_after_setup(compat: str, run_json: RunJson, write_job: WriteJob) -> None:
    files = {"sub/train.py": BOOT, "sub/ma-pre-start.sh": SHELL, "ma-pre-start.sh": "exit 9"}
    fields = {"compat": compat, "boot": "sub/train.py", "setup": "export GIVEN=by-setup", "log_url": "obs://b/log"}
    view = run_json(write_job(fields, **files))
    assert said(view) == ["red-0 by-setup -\n"], (view["reason"], logs(view, "setup"))
    (log,) = [text for name, text in stored("obs://b/log").items() if name.endswith("-0.log")]
    assert log == logs(view, "setup")[0] + said(view)[0], "the platform's log holds both"


@BOTH
@pytest.mark.parametrize(
    "file, text, code",
    [
        ("ma-pre-start.sh", "echo no driver here; exit 3", 3),
        ("ma-pre-start.sh", "echo no driver here; false", 1),
        ("ma-pre-start.sh", "set -e; echo no driver here; false; echo never", 1),
        ("ma-pre-start.py", "print('no driver here'); raise SystemExit(4)", 4),
    ],
)
def test_one_that_fails_fails_the_run_and_is_named(
    compat: str, file: str, text: str, code: int, muster: Muster, write_job: WriteJob
) -> None:
    done = muster("run", write_job({"compat": compat}, **{"train.py": "print('never')", file: text}))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"[setup-0] muster: running {file}", "[setup-0] no driver here"]
    assert f"failed: setup on node 0 exited with code {code}" in done.stderr


def test_a_command_finds_a_python_for_it(run_json: RunJson, write_job: WriteJob) -> None:
    files = {"ma-pre-start.py": "print('ran')", "run.sh": "echo done"}
    view = run_json(write_job({"compat": "modelarts-v1", "command": "bash run.sh"}, **files))
    assert (said(view), logs(view, "setup")) == (["done\n"], ["muster: running ma-pre-start.py\nran\n"])

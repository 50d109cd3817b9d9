"""Data of the submitter's machine on hosts that share nothing with it: its store and its files come through the connection."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob, until
from host_machines import Machines
from traces import put, stored

RunJson = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long

BOOT = {"python": "python3"}  # of the hosts

COPY = """
import os, pathlib, shutil, sys
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
rank = os.environ["MUSTER_RANK"]
for name in ("stored", "near", "file"):
    for path in sorted(pathlib.Path(given[name]).rglob("*")):
        if path.is_file():
            print(name, path.relative_to(given[name]), path.read_text())
for name in ("out", "back"):
    os.makedirs(f"{given[name]}/deep", exist_ok=True)
    pathlib.Path(given[name], "deep", rank).write_text(f"of rank {rank}")
"""


def test_inputs_and_outputs_of_the_submitters_machine_reach_all_hosts(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    on_hosts()
    put(**{"data/a.txt": "of the store"})
    (tmp_path / "near" / "deep").mkdir(parents=True)
    (tmp_path / "near" / "deep" / "b.txt").write_text("of a directory")
    (tmp_path / "c.txt").write_text("of a file")
    fields = {
        "nodes": 2,
        "inputs": {"stored": "obs://b/data", "near": str(tmp_path / "near"), "file": f"file://{tmp_path}/c.txt"},
        "outputs": {"out": "s3://b/out", "back": "../out"},
        "log_url": str(tmp_path / "logs"),
    }
    view = run_json(write_job({**BOOT, **fields}, **{"train.py": COPY}))
    assert view["state"] == "succeeded", view["reason"]
    for rank in view["attempts"][0]["ranks"]:
        lines = Path(rank["log"]).read_text().splitlines()
        assert lines == ["stored a.txt of the store", "near deep/b.txt of a directory", "file c.txt of a file"]
    assert stored("obs://b/out") == {"deep/0": "of rank 0", "deep/1": "of rank 1"}
    assert [(tmp_path / "out" / "deep" / rank).read_text() for rank in "01"] == ["of rank 0", "of rank 1"]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["rank-0.log", "rank-1.log"]


def test_moxing_on_hosts_uses_the_submitters_store(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("trainer@h1", "trainer@h2")
    put(**{"data/a.txt": "of the store"})
    train = """
    import os, sys
    import moxing as mox
    url = sys.argv[1].split("=", 1)[1]
    mox.file.copy_parallel(url, "/tmp/data")
    rank = os.environ["MUSTER_RANK"]
    with mox.file.File(f"s3://b/out/{rank}", "w") as file:
        file.write(open("/tmp/data/a.txt").read() + " for " + rank)
    mox.file.append(f"obs://b/out/{rank}", "!")
    mox.file.rename(f"obs://b/out/{rank}", f"obs://b/out/of-{rank}")
    print(sorted(mox.file.list_directory("obs://b/data")), mox.file.exists("obs://b/none"))
    """
    fields = {**BOOT, "nodes": 2, "compat": "modelarts-v1", "inputs": {"data_url": "obs://b/data"}}
    view = run_json(write_job(fields, **{"train.py": train}))
    assert view["state"] == "succeeded", view["reason"]
    assert stored("obs://b/out") == {f"of-{rank}": f"of the store for {rank}!" for rank in "01"}
    assert "['a.txt'] False" in Path(view["attempts"][0]["ranks"][0]["log"]).read_text()


def test_a_program_of_modelarts_v1_gets_no_path_that_its_hosts_do_not_have(
    machines: Machines, on_hosts: Callable[..., None], muster: Muster, write_job: WriteJob, home: Path
) -> None:
    on_hosts("h1")
    job = write_job({**BOOT, "compat": "modelarts-v1", "outputs": {"train_url": "./out"}}, **{"train.py": ""})
    done = muster("run", job, "--check")
    assert done.returncode == 2
    assert "programs of modelarts-v1 get that path on hosts that do not have it" in done.stderr
    assert not (home / "runs").exists()


WRITES = """
import os, signal, sys
out = sys.argv[1].split("=", 1)[1]
def end(*_):
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
with open(out + "/big", "wb") as file:
    for block in range(24):
        file.write(bytes([block]) * (4 << 20))
"""


def test_outputs_come_back_whole_when_the_connection_breaks_on_the_way_and_say_how_far_they_are(
    machines: Machines, on_hosts: Callable[..., None], command: list[str], write_job: WriteJob, tmp_path: Path, home: Path
) -> None:
    on_hosts("h1", "h2")
    job = write_job({**BOOT, "nodes": 2, "outputs": {"out": "../back"}}, **{"train.py": WRITES})
    parts = home / "parts"
    with Live(command, job) as live:
        until(lambda: len(list(parts.glob("*/*.*"))) > 2 or live.command.poll() is not None)
        assert live.command.poll() is None, "it was too quick to be broken"
        machines.break_connections("h1")
        machines.break_connections("h2")
        machines.cut("h1")
        there = machines.records("h1", live.run.id)[0] / "attempts/1/nodes/0/logs/outputs.log"
        try:
            until(lambda: " files so far\n" in there.read_text())
        finally:
            machines.mend("h1")
        view = live.end()
    assert view["state"] == "succeeded", view["reason"]
    assert " files so far\n" in Path(live.run.attempt(1).node(0).log("outputs")).read_text()
    whole = hashlib.sha256(b"".join(bytes([block]) * (4 << 20) for block in range(24))).hexdigest()
    assert hashlib.sha256((tmp_path / "back" / "big").read_bytes()).hexdigest() == whole
    assert not list(parts.glob("*/*.*")), "nothing is left of the parts"

"""Frameworks whose own launcher starts the ranks: mpirun for real, and horovodrun as far as ssh and secrets go."""

from __future__ import annotations

import getpass
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour import no_namespaces
from conftest import Muster, WriteJob, needs_ssh
from fake_horovodrun import HOROVODRUN
from muster.engines.local import requirements
from muster.job import Job
from muster.linux import ssh_programs

RunJson = Callable[..., dict[str, Any]]

needs_mpi = pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun: install openmpi-bin")

LOOK = """
import os
print("I am", *(os.environ[name] for name in ("MUSTER_RANK", "MUSTER_LOCAL_RANK", "MUSTER_NODE")), os.getcwd()[-12:],
      os.path.basename(os.path.dirname(os.environ["MUSTER_RESULTS"])), os.environ["MY_TOKEN"], flush=True)
"""
EXPECTED = [f"I am {rank} {rank % 2} {rank // 2} nodes/{rank // 2}/work {rank // 2} sesame\n" for rank in range(4)]


def logs(view: dict[str, Any]) -> list[str]:
    """What each rank wrote, after the run has succeeded."""
    folder = Path(view["dir"], "attempts", "1", "nodes")
    assert view["state"] == "succeeded", f"{view['reason']}\n{(folder / '0/logs/main.log').read_text()}"
    return [(folder / f"{rank // 2}/logs/rank-{rank}.log").read_text() for rank in range(4)]


@pytest.mark.conformance
@needs_ssh
@needs_mpi
def test_mpirun_starts_all_ranks_each_in_its_node(
    containment: str, run_json: RunJson, muster: Muster, write_job: WriteJob
) -> None:
    job = write_job({"framework": "mpi", "nodes": 2, "devices": 2, "secrets": ["MY_TOKEN"]}, **{"train.py": LOOK})
    view = run_json(job, MY_TOKEN="sesame")
    assert logs(view) == EXPECTED
    assert [muster("logs", view["run"], "--rank", rank).stdout for rank in range(4)] == EXPECTED
    assert view["reason"] == "all 4 ranks succeeded"
    assert [entry["process"] for entry in view["attempts"][0]["ranks"]] == ["main"]


@pytest.mark.long
@needs_ssh
@needs_mpi
def test_a_rank_that_fails_on_another_node_fails_the_run(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    train = "import os, sys, time\nif os.environ['MUSTER_RANK'] == '3':\n    {end}\nprint('up', flush=True)\ntime.sleep(1000)"
    fields = {"framework": "mpi", "nodes": 2, "devices": 2}
    view = run_json(write_job(fields, **{"train.py": train.format(end="sys.exit(5)")}))
    assert (view["state"], view["reason"]) == ("failed", "main on node 0 exited with code 5")
    view = run_json(write_job(fields, **{"train.py": train.format(end="raise ValueError('too hot')")}))
    assert view["reason"] == "main on node 0 exited with code 1: rank 3: ValueError: too hot"
    assert view["failure"]["log"].endswith("/nodes/1/logs/rank-3.log")


@needs_ssh
@needs_mpi
def test_a_shell_that_a_launcher_started_says_which_program_it_did_not_find(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"framework": "mpi", "nodes": 2, "command": "python3.1.4 train.py"}))
    assert view["reason"].startswith("main on node 0 exited with code 127: rank "), view["reason"]
    assert view["reason"].endswith(": bash: line 1: python3.1.4: command not found")


@needs_ssh
@needs_mpi
@pytest.mark.parametrize("chosen", [True, False])
def test_what_open_mpi_keeps_is_each_node_s_own_and_gone_with_the_run(
    containment: str, run_json: RunJson, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: bool
) -> None:
    above = tmp_path if chosen else Path("/tmp")
    monkeypatch.delenv("TMPDIR", raising=False)
    both = "touch $MUSTER_SHARED/$MUSTER_RANK; until test -e $MUSTER_SHARED/$((1 - MUSTER_RANK)); do sleep 0.05; done"
    command = f"echo $OMPI_MCA_orte_tmpdir_base $TMPDIR; {both}; kill -9 $PPID; sleep 1000"
    view = run_json(
        write_job({"framework": "mpi", "nodes": 2, "command": command}), **({"TMPDIR": str(above)} if chosen else {})
    )
    said = [log.read_text().split() for log in Path(view["dir"]).glob("attempts/1/nodes/*/logs/rank-*.log")]
    kept = {Path(words[0]) for words in said}
    assert [words[1] for words in said] == [str(above)] * 2
    assert len(kept) == 2
    assert {folder.parent for folder in kept} == {above}
    assert not [folder for folder in kept if folder.exists()]


@pytest.fixture
def horovodrun(tmp_path: Path) -> str:
    """A PATH that has it."""
    launcher = tmp_path / "bin" / "horovodrun"
    launcher.parent.mkdir()
    launcher.write_text(HOROVODRUN)
    launcher.chmod(0o755)
    return f"{launcher.parent}:/usr/local/bin:/usr/bin:/bin"


@needs_ssh
def test_horovodrun_starts_all_ranks_each_in_its_node_and_no_command_line_holds_a_secret(
    containment: str, horovodrun: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    job = write_job({"framework": "horovod", "nodes": 2, "devices": 2, "secrets": ["MY_TOKEN"]}, **{"train.py": LOOK})
    secret = {"MY_TOKEN": "sesame", "HF_TOKEN": "sesame", "http_proxy": "http://me:sesame@host"}
    view = run_json(job, PATH=horovodrun, SEEN=str(seen), **secret)
    assert logs(view) == EXPECTED
    shown = seen.read_text()
    assert shown.count("node-1 env HOROVOD_RANK=") == 2
    assert "sesame" not in shown


GUIDE = """\
cd ~ && mkdir -p ~/checkpoints && horovodrun -np 4 -hostfile /home/${DLWS_USER_NAME}/ib_config \
-p $DLWS_SD_worker0_SSH_PORT --network-interface lo sh $WORK/train.sh ~/checkpoints/ && sleep infinity"""
TRAIN = 'echo "$HOROVOD_RANK of $DLWS_ROLE_NAME $DLWS_ROLE_IDX in $PWD with $MY_TOKEN" > $1$HOROVOD_RANK; cat $1$HOROVOD_RANK'


@pytest.mark.long
@needs_ssh
def test_the_command_of_the_apulis_guide_works_as_typed(
    horovodrun: str, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    fields = {"compat": "apulis", "nodes": 2, "devices": 2, "command": GUIDE, "secrets": ["MY_TOKEN"]}
    job = write_job({**fields, "setup": "export WORK=$PWD"}, **{"train.sh": TRAIN})
    view = run_json(job, PATH=horovodrun, MY_TOKEN="sesame", SEEN=str(tmp_path / "seen"), HOME=str(tmp_path))
    log = Path(view["attempts"][0]["ranks"][0]["log"]).read_text()
    assert view["state"] == "succeeded", f"{view['reason']}\n{log}"
    home = f"/home/{getpass.getuser()}"
    trained = [line for line in log.splitlines() if not line.startswith("muster:")]
    assert sorted(trained) == [f"{rank} of worker {rank // 2} in {home} with sesame" for rank in range(4)]
    assert "sesame" not in (tmp_path / "seen").read_text()


# -- what is missing is said before anything is created


@pytest.mark.parametrize(
    ("framework", "program", "advice"),
    [("horovod", "horovodrun", "`pip install horovod`"), ("mpi", "mpirun", "install openmpi-bin (Debian)")],
)
def test_a_launcher_that_is_not_there(
    framework: str, program: str, advice: str, home: Path, muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = muster("run", write_job({"framework": framework, "command": "true"}), PATH=f"{Path(sys.executable).parent}:{empty}")
    assert done.returncode == 2
    assert f"`framework` is {framework}, and there is no {program} on your PATH; {advice}" in done.stderr
    assert not (home / "runs").exists()


@needs_ssh
def test_setup_may_bring_the_launcher(run_json: RunJson, write_job: WriteJob, tmp_path: Path) -> None:
    fields = {"framework": "mpi", "setup": "export PATH=$PWD/mine:$PATH", "command": "true"}
    job = write_job(fields, **{"mine/mpirun": "#!/bin/sh\n"})
    (job.parent / "mine" / "mpirun").chmod(0o755)
    (tmp_path / "bin").mkdir()
    for name in ("bash", "env", "sh", "ssh", "ssh-keygen"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    assert run_json(job, PATH=str(tmp_path / "bin"))["state"] == "succeeded"


@pytest.mark.parametrize("framework", ["horovod", "mpi"])
def test_machines_without_an_ssh_server(framework: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ssh", "ssh-keygen", "horovodrun", "mpirun"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ssh_programs, "SYSTEM", "")
    [(field, message, hint)] = requirements.lacking(Job(framework=framework, device="cpu", ssh=True, command="true"))
    assert (field, message) == ("framework", "needs ssh between the nodes: there is no sshd")
    assert hint == "install openssh-server (Debian); no service has to run"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ssh": False}, "`ssh` is off, and mpi starts its ranks over ssh; remove it, or set it to `true`"),
        ({"workdir": "rank"}, "`workdir` can only be `node` with mpi, whose launcher starts the ranks; remove it"),
        ({"ssh": "sometimes"}, "`ssh: sometimes` is not known; it takes `true` or `false`"),
    ],
)
def test_jobs_that_cannot_be(fields: dict[str, Any], message: str, muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"framework": "mpi", "command": "true", **fields}))
    assert done.returncode == 2
    assert message in done.stderr

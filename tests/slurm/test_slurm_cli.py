"""The command line with a Slurm behind it: what is shown before, asked in between, and said when there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest
from on_slurm import config as config
from on_slurm import site as site

from conftest import Muster, WriteJob, until
from slurm_cluster import Cluster
from slurm_site.configuration import Nodes, Partition

FOREVER = "trap 'exit 9' TERM; echo here; while true; do sleep 0.1; done"


def test_dry_run_prints_the_script_and_makes_nothing(site: Cluster, write_job: WriteJob, muster: Muster, home: Path) -> None:
    job = write_job({"command": "true", "nodes": 3, "device": "ascend", "devices": 8, "slurm": {"account": "vision"}})
    done = muster("run", job, "--engine", "slurm", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "# sbatch --parsable"
    assert lines[2] == "#!/bin/sh"
    assert {"#SBATCH --nodes=3", "#SBATCH --gres=npu:8", "#SBATCH --account=vision"} <= set(lines)
    told = json.loads(muster("run", job, "--engine", "slurm", "--dry-run", "--json").stdout)
    assert told["script"].startswith("#!/bin/sh\n")
    assert not (home / "runs").exists()
    assert site.run("squeue", "--noheader") == ""


def test_settings_of_the_site_reach_the_script(
    site: Cluster, write_job: WriteJob, muster: Muster, config: Callable[[str], None]
) -> None:
    config('account = "all"\ngres = {ascend = "npu"}\noptions = ["--nice=3"]\n')
    done = muster("run", write_job({"command": "true", "device": "ascend"}), "--engine", "slurm", "--dry-run")
    assert {"#SBATCH --account=all", "#SBATCH --gres=npu:1", "#SBATCH --nice=3"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('partitoin = "a"', "`slurm.partitoin` is not known; there are partition, "),
        ("partition = 3", "`slurm.partition` is not a text"),
        ('partition = "a\\nb"', "`slurm.partition` holds a line break"),
        ('exclusive = "yes"', "`slurm.exclusive` is neither true nor false"),
        ('options = "--nice"', "`slurm.options` is `--nice`; it takes a list of options of sbatch"),
        ('gres = "npu"', "`slurm.gres` is `npu`; it takes a mapping such as"),
        ('gres = {tpu = "x"}', "`slurm.gres.tpu` is not known; there are `nvidia`, `ascend`"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    write_job: WriteJob, muster: Muster, config: Callable[[str], None], text: str, words: str
) -> None:
    config(text + "\n")
    done = muster("run", write_job({"command": "true"}), "--engine", "slurm", "--dry-run")
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitoin": "a"}, "`slurm.partitoin` is not known here; did you mean `partition`?"),
        ({"partition": "a\nb"}, "`slurm.partition` holds a line break"),
        ({"gres": "npu:8"}, "leave the count out"),
        ({"options": ["-n 4"]}, "is not a long option"),
        ({"options": ["--nice", "--mem=3"]}, "`slurm` cannot take the option `--mem=3`; use `memory`"),
        ({"exclusive": "maybe"}, "`slurm.exclusive: maybe` is not known"),
    ],
)
def test_options_of_a_job_that_cannot_be_meant_are_refused(
    site: Cluster, write_job: WriteJob, muster: Muster, options: dict[str, object], words: str
) -> None:
    done = muster("run", write_job({"command": "true", "slurm": options}), "--engine", "slurm", "--check")
    assert done.returncode == 2
    assert words in done.stderr


def test_a_home_that_the_nodes_cannot_see_is_refused(
    site: Cluster, write_job: WriteJob, muster: Muster, home: Path, config: Callable[[str], None]
) -> None:
    (home / "config.toml").write_text('[slurm]\nshared = ["/somewhere/else"]\n')
    done = muster("run", write_job({"command": "true"}), "--engine", "slurm")
    assert done.returncode == 2
    assert "lies in none of the directories that nodes share (/somewhere/else); set it to a directory" in done.stderr
    memory = Path("/dev/shm", f"muster-{os.getpid()}")
    done = muster("run", write_job({"command": "true"}), "--engine", "slurm", MUSTER_HOME=str(memory))
    assert done.returncode == 2
    assert f"MUSTER_HOME is {memory}, which lies on tmpfs, in the memory of this machine" in done.stderr
    assert not memory.exists()


def test_without_slurm_the_command_says_what_to_do(write_job: WriteJob, muster: Muster, config: object, tmp_path: Path) -> None:
    done = muster("run", write_job({"command": "true"}), "--engine", "slurm", PATH=str(tmp_path))
    assert done.returncode == 3
    assert "there is no sinfo on your PATH; log in to a machine of the cluster" in done.stderr


@pytest.mark.parametrize(
    "site_sbatch",
    [
        'echo Welcome; REAL "$@"; echo You have 3 hours left',
        'REAL "$@" | sed "s/^/Submitted batch job /"',
        'REAL "$@" >/dev/null; echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv" >&2; exit 1',
    ],
    ids=["says more", "says it in words", "hears nothing of a job that was taken"],
)
def test_a_site_may_have_an_sbatch_of_its_own(
    site: Cluster, write_job: WriteJob, muster: Muster, tmp_path: Path, site_sbatch: str
) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/sh\n" + site_sbatch.replace("REAL", shutil.which("sbatch") or ""))
    (tmp_path / "sbatch").chmod(0o755)
    job = write_job({"command": FOREVER, "slurm": {"options": ["--hold"]}})
    done = muster("run", job, "--engine", "slurm", "--detach", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()
    assert json.loads(muster("show", run, "--json").stdout)["state"] == "pending"
    assert muster("stop", run).returncode == 0
    assert site.run("squeue", "--noheader") == ""


def test_a_submitter_without_a_path(site: Cluster, write_job: WriteJob, command: list[str]) -> None:
    job = write_job({"command": ["/bin/echo", "here"], "nodes": 2})
    words = ["env", "-u", "PATH", *command, "run", str(job), "--engine", "slurm"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("here") == 2


def test_doctor_shows_the_cluster_and_what_of_it_is_free(site: Cluster, muster: Muster) -> None:
    site.run("sbatch", "--nodes=1", "--gres=npu:3", "--mem=100", "--output=/dev/null", "--wrap", "sleep 60")
    until(lambda: "R" in site.run("squeue", "--noheader", "--format=%t"))
    found = json.loads(muster("doctor", "--json").stdout)
    [line] = [entry["found"] for entry in found if entry["part"] == "slurm"]
    assert line.startswith("main (default): 4 nodes, 4 with something free; 31 of 32 CPUs free; 16G memory each;")
    assert "29 of 32 npu free" in line


def test_a_site_with_other_names(
    slurm_site: Callable[..., Cluster],
    write_job: WriteJob,
    muster: Muster,
    config: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = slurm_site(
        Nodes("tiger", 2, gres="huawei:910b:4"),
        Nodes("lion", 1, gres=None),
        partitions=[Partition("cpu", nodes=["lion1"], default=True), Partition("train", nodes=["tiger1", "tiger2"])],
    )
    monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
    config('partition = "train"\ngres = {ascend = "huawei:910b"}\n')
    job = write_job({"command": "true", "device": "auto", "devices": 4, "nodes": 2, "slurm": {"options": ["--hold"]}})
    run = muster("run", job, "--engine", "slurm", "--detach").stdout.strip()
    [queued] = site.jobs().values()
    assert (queued["partition"], queued["tres_per_node"]) == ("train", "gres:huawei:910b:4")
    muster("stop", run)
    refused = muster("run", job, "--engine", "slurm", "--devices", "8")
    assert "partition train has no node with 8 huawei:910b" in refused.stderr
    plain = muster("run", job, "--engine", "slurm", "--check", "--json", "--set", "slurm.partition=cpu", "--nodes", "1")
    assert json.loads(plain.stdout)["job"]["device"] == "cpu"


@pytest.fixture
def terminal(command: list[str]) -> Iterator[Callable[..., pexpect.spawn[str]]]:
    """Starts the command line on a terminal of its own."""
    started: list[pexpect.spawn[str]] = []

    def call(*words: object) -> pexpect.spawn[str]:
        child: pexpect.spawn[str] = pexpect.spawn(
            command[0], [*command[1:], *map(str, words)], encoding="utf-8", timeout=40, dimensions=(24, 120)
        )
        started.append(child)
        return child

    yield call
    for child in started:
        child.close(force=True)


@pytest.mark.parametrize(("answer", "state"), [("l\r", "running"), ("s\r", "stopped"), ("\x03", "stopped")])
def test_ctrl_c_on_a_terminal_asks_whether_to_stop_or_to_leave(
    site: Cluster,
    write_job: WriteJob,
    muster: Muster,
    terminal: Callable[..., pexpect.spawn[str]],
    answer: str,
    state: str,
) -> None:
    child = terminal("run", write_job({"command": FOREVER, "nodes": 2}), "--engine", "slurm")
    child.expect_exact("here")
    child.sendintr()
    asked = child.expect_exact(["stop the job, or leave it running?", pexpect.EOF])
    assert asked == 0, f"{child.before!r} {child.wait()} {muster('show', 'last').stdout}"
    child.send(answer)
    child.expect(pexpect.EOF)
    child.close()
    view = json.loads(muster("show", "last", "--json").stdout)
    assert view["state"] == state
    assert child.exitstatus == (0 if state == "running" else 130)
    muster("stop", "last")

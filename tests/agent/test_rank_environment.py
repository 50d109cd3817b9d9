"""The environment of a rank: the submitter's, less keys and less what Muster is, then framework, job and secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live, files_with

from behaviour import Configure
from conftest import Muster, WriteJob, until

RunJson = Callable[..., dict[str, Any]]

DUMP = """
import json, os
print(json.dumps(dict(os.environ)))
"""


def environment_of(view: dict[str, Any], rank: int = 0, attempt: int = 1) -> dict[str, str]:
    """What a rank printed as its environment."""
    log = next(entry["log"] for entry in view["attempts"][attempt - 1]["ranks"] if entry["rank"] == rank)
    found: dict[str, str] = json.loads(Path(log).read_text().splitlines()[-1])
    return found


def command_lines() -> bytes:
    """The command lines of all processes of this machine."""
    found = []
    for name in os.listdir("/proc"):
        try:
            found.append(Path("/proc", name, "cmdline").read_bytes() if name.isdigit() else b"")
        except OSError:  # it ended meanwhile
            continue
    return b"\n".join(found)


def exactly(command: list[str], job: Path, environment: dict[str, str], cwd: Path) -> dict[str, str]:
    """Runs a job that prints its environment with `env -0`, from a shell with nothing but the given variables.

    And with what a user of Slurm has there to find the cluster.
    """
    site = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    words = [*command, "run", str(job), "--json"]
    done = subprocess.run(words, env={**environment, **site}, cwd=cwd, capture_output=True, text=True)
    log = Path(json.loads(done.stdout)["dir"], "attempts/1/nodes/0/logs/rank-0.log")
    return dict(entry.split("=", 1) for entry in log.read_text().split("\0") if entry)


@pytest.mark.conformance(
    not_on_server="the submitter's environment stays behind", not_on_hosts="hosts have an environment of their own"
)
def test_a_rank_has_what_the_submitter_had_and_what_muster_documents_and_nothing_else(
    engine: str, containment: str, command: list[str], write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    had = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "MUSTER_HOME": str(home),
        "LD_PRELOAD_NOT": "kept",
        "EMPTY": "",
        "MANY": "a=b=c",
        "LINES_OF": "one\ntwo",
    }
    got = exactly(command, write_job({"command": ["env", "-0"]}), had, tmp_path)
    own = {name for name in got if name.startswith("MUSTER_")} - {"MUSTER_HOME"}
    assert own == {
        "MUSTER_" + name
        for name in [
            "RUN",
            "ATTEMPT",
            "NODE",
            "NODES",
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "HOSTS",
            "MASTER_ADDR",
            "MASTER_PORT",
            "RESULTS",
            "SHARED",
            "SOCKET",
        ]
    }
    set_for_ranks = {"OMP_NUM_THREADS", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PWD"}
    set_for_ranks |= {"CUDA_VISIBLE_DEVICES"} if shutil.which("nvidia-smi") else set()
    set_for_ranks |= {"HOSTNAME", "TMPDIR", "ENVIRONMENT"} if engine == "slurm" else set()  # of the node and of its job
    assert set(got) == set(had) | own | set_for_ranks
    assert {name: got[name] for name in had} == had
    assert got["PWD"] == str(Path(got["MUSTER_RESULTS"]).parent / "work")


def test_python_paths_and_locale_of_the_submitter_pass_as_they_are(
    command: list[str], write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    had = {
        "PATH": os.environ["PATH"],
        "MUSTER_HOME": str(home),
        "PYTHONPATH": "/some/modules",
        "PYTHONHASHSEED": "7",
        "VIRTUAL_ENV": "/some/environment",
        "CONDA_PREFIX": "/some/conda",
        "LD_LIBRARY_PATH": "/some/libraries",
        "LANG": "C",
        "LC_NUMERIC": "C",
        "TZ": "Asia/Shanghai",
    }
    got = exactly(command, write_job({"command": ["env", "-0"]}), had, tmp_path)
    mine, _, added = got.pop("PYTHONPATH").partition(":")
    assert (mine, Path(added).name) == (had.pop("PYTHONPATH"), "shims")  # behind it: what jobs may import of Muster
    assert {name: got.get(name) for name in had} == had
    assert "LC_CTYPE" not in got
    assert "LC_ALL" not in got


def test_a_run_inside_a_run_does_not_inherit_the_outer_one(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job(**{"train.py": DUMP}), MUSTER_RUN="outer", MUSTER_RANK="77", MUSTER_OTHER="x")
    got = environment_of(view)
    assert (got["MUSTER_RUN"], got["MUSTER_RANK"]) == (view["run"], "0")
    assert "MUSTER_OTHER" not in got


KEYS = """
AWS_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SECRET_KEY AWS_SESSION_TOKEN AWS_WEB_IDENTITY_TOKEN_FILE
S3_SECRET_KEY S3_ACCESS_KEY MY_S3_PASSWORD RGW_ACCESS_KEY_ID ACCESS_KEY SECRET_KEY aws_secret_access_key
OBS_SECRET_ACCESS_KEY OBS_AK OBS_SK OSS_ACCESS_KEY_SECRET COS_SECRET_ID COS_SECRET_KEY HUAWEICLOUD_SDK_SK HW_SECRET_KEY
OS_PASSWORD OS_TOKEN CLOUD_SDK_AK MINIO_ROOT_USER MINIO_ROOT_PASSWORD AZURE_STORAGE_KEY AZURE_CLIENT_SECRET
AZURE_STORAGE_CONNECTION_STRING GOOGLE_APPLICATION_CREDENTIALS GCS_CREDENTIALS CLOUDSDK_AUTH_ACCESS_TOKEN BMC_PASSWORD
IPMI_PASSWORD TENCENTCLOUD_SECRET_ID ALIBABA_CLOUD_ACCESS_KEY_SECRET
"""
NO_KEYS = """
WANDB_API_KEY WANDB_MODE HF_TOKEN GITHUB_TOKEN AZURE_OPENAI_API_KEY AWS_REGION AWS_ENDPOINT_URL AWS_PROFILE S3_KEY_PREFIX
S3_BUCKET OBS_ENDPOINT OS_NAME TOKENIZERS_PARALLELISM KEY_FILE MAX_TOKENS TASK DISK OSS_REGION
"""


def test_keys_to_storage_and_clouds_stay_with_the_submitter(run_json: RunJson, write_job: WriteJob) -> None:
    endpoints = dict.fromkeys(("OBS_ENDPOINT", "AWS_ENDPOINT_URL"), "https://obs.example.com")
    given = {**dict.fromkeys([*KEYS.split(), *NO_KEYS.split()], "x"), **endpoints}
    got = environment_of(run_json(write_job({"setup": "true"}, **{"train.py": DUMP}), **given))
    assert set(KEYS.split()) & set(got) == set()
    assert set(NO_KEYS.split()) - set(got) == set()


def test_a_key_named_in_secrets_reaches_ranks_and_setup(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {"secrets": ["OBS_SECRET_ACCESS_KEY"], "setup": "export SEEN_BY_SETUP=${#OBS_SECRET_ACCESS_KEY}", "nodes": 2},
        **{"train.py": DUMP},
    )
    view = run_json(job, OBS_SECRET_ACCESS_KEY="four-and-more")
    for rank in (0, 1):
        got = environment_of(view, rank)
        assert (got["OBS_SECRET_ACCESS_KEY"], got["SEEN_BY_SETUP"]) == ("four-and-more", "13")


def test_a_secret_comes_from_the_profile_when_the_environment_has_none(
    run_json: RunJson, muster: Muster, write_job: WriteJob, configure: Configure
) -> None:
    configure('[profiles.default.secrets]\nTHE_KEY = "from the profile"\n')
    job = write_job({"secrets": ["THE_KEY"]}, **{"train.py": DUMP})
    assert environment_of(run_json(job))["THE_KEY"] == "from the profile"
    assert environment_of(run_json(job, THE_KEY="from the shell"))["THE_KEY"] == "from the shell"
    assert "THE_KEY" not in environment_of(run_json(write_job({}, **{"train.py": DUMP})))


@pytest.mark.conformance
def test_a_secret_is_neither_written_down_nor_in_any_command_line(
    containment: str, command: list[str], write_job: WriteJob, home: Path
) -> None:
    secret = "s3cr3t-0f-th3-subm1tt3r"
    job = write_job(
        {"secrets": ["THE_KEY"], "setup": "export DERIVED=$THE_KEY-derived", "nodes": 2, "retries": 1},
        **{
            "train.py": """
            import os, signal, sys
            if os.environ["MUSTER_ATTEMPT"] == "1":
                sys.exit(int(os.environ["DERIVED"] == os.environ["THE_KEY"] + "-derived"))
            print("up", flush=True)
            signal.pause()
            """
        },
    )
    with Live(command, job, THE_KEY=secret) as live:
        until(lambda: live.log(attempt=2) == "up\n")
        lines = command_lines()
        assert secret.encode() not in lines
        assert os.path.realpath(live.run.path).encode() in lines
        live.interrupt()
        live.end()
        assert "up" in live.said.read_text()
        assert secret not in live.said.read_text()
    runs = Path(os.path.realpath(home / "runs"))  # those of a server lie elsewhere
    assert files_with(home, secret) == files_with(runs, secret) == []
    assert files_with(runs, "THE_KEY") != []


def test_the_job_has_the_word_over_framework_and_submitter(run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {
            "framework": "pytorch",
            "devices": 2,
            "env": {"OMP_NUM_THREADS": "3", "MASTER_PORT": "1234", "FROM_SHELL": "job", "PYTHONUNBUFFERED": ""},
        },
        **{"train.py": DUMP},
    )
    got = environment_of(run_json(job, OMP_NUM_THREADS="9", RANK="77", FROM_SHELL="shell"), rank=1)
    assert (got["OMP_NUM_THREADS"], got["MASTER_PORT"], got["FROM_SHELL"]) == ("3", "1234", "job")
    assert (got["RANK"], got["PYTHONUNBUFFERED"]) == ("1", "")


@pytest.fixture
def activate(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Makes a virtual environment; returns what activating it sets."""

    def make(name: str) -> dict[str, str]:
        venv.create(tmp_path / name, symlinks=True)
        return {"PATH": f"{tmp_path / name}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(tmp_path / name)}

    return make


@pytest.mark.parametrize(
    "fields",
    [{"boot": "train.py", "python": ""}, {"command": "python train.py"}, {"command": ["python", "train.py"], "per": "device"}],
    ids=["boot", "string", "list"],
)
def test_a_module_of_the_activated_environment_is_found(
    fields: dict[str, Any], muster: Muster, write_job: WriteJob, activate: Callable[[str], dict[str, str]]
) -> None:
    job = write_job({"name": "job"}, **{"train.py": "import only_here, sys\nprint(only_here.answer, sys.prefix)\n"})
    job.write_text(json.dumps({"name": "job", "device": "cpu", **{key: value for key, value in fields.items() if value}}))
    framework, other = activate("with a framework"), activate("without")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    Path(framework["VIRTUAL_ENV"], "lib", version, "site-packages", "only_here.py").write_text("answer = 42\n")
    done = muster("run", job, **framework)
    assert (done.returncode, done.stdout) == (0, f"[0] 42 {framework['VIRTUAL_ENV']}\n")
    without = muster("run", job, **other)
    assert without.returncode == 1
    assert "ModuleNotFoundError: No module named 'only_here'" in without.stderr


def test_a_script_in_front_of_python_is_what_runs(run_json: RunJson, write_job: WriteJob, tmp_path: Path) -> None:
    wrapper = tmp_path / "site-python"
    wrapper.write_text(f'#!/bin/sh\nSITE=entered exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    view = run_json(write_job({"python": str(wrapper)}, **{"train.py": DUMP}))
    assert environment_of(view)["SITE"] == "entered"


def test_a_pyenv_shim_is_looked_through_once(run_json: RunJson, write_job: WriteJob, tmp_path: Path) -> None:
    root = tmp_path / "pyenv"
    (root / "shims").mkdir(parents=True)
    (root / "libexec").mkdir()
    (root / "libexec" / "pyenv").write_text(f'#!/bin/sh\necho asked >> {root}/asked\nshift 2\nexec {sys.executable} "$@"\n')
    shim = root / "shims" / "python"
    shim.write_text(f'#!/usr/bin/env bash\nprogram="${{0##*/}}"\nexec "{root}/libexec/pyenv" exec "$program" "$@"\n')
    for file in (root / "libexec" / "pyenv", shim):
        file.chmod(0o755)
    job = write_job({"python": str(shim), "devices": 4, "per": "device"}, **{"train.py": DUMP})
    for _ in range(2):
        view = run_json(job)
        assert (view["state"], view["job"]["python"]) == ("succeeded", sys.executable)
    assert (root / "asked").read_text() == "asked\n"


def test_limits_masks_and_signals_are_as_the_submitter_had_them(
    containment: str, command: list[str], write_job: WriteJob, tmp_path: Path
) -> None:
    state = "umask; ulimit -n; ulimit -c; ulimit -s; nice; grep -E '^Sig(Blk|Ign)|^Cpus_allowed_list' /proc/self/status"
    job = write_job({"command": state, "framework": "command"})
    around = f"umask 027; ulimit -n 200; ulimit -c 0; ulimit -s 4096; trap '' USR1; {state}; exec \"$@\""
    done = subprocess.run(
        ["nice", "-n", "3", "bash", "-c", around, "bash", *command, "run", str(job)], capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    own, ranks = [line for line in lines if not line.startswith("[")], [line[4:] for line in lines if line.startswith("[0] ")]
    assert own == ranks
    assert own[:5] == ["0027", "200", "0", "4096", str(os.nice(0) + 3)]


@pytest.mark.conformance(
    not_on_server="the submitter's environment stays behind", not_on_hosts="hosts have an environment of their own"
)
def test_what_a_batch_system_told_the_submitter_reaches_no_rank(run_json: RunJson, write_job: WriteJob) -> None:
    told = {
        "SLURM_JOB_ID": "7",
        "SLURMD_NODENAME": "a",
        "SRUN_DEBUG": "3",
        "SBATCH_QOS": "x",
        "PMI_SIZE": "4",
        "PMIX_RANK": "1",
    }
    view = run_json(write_job({"env": {"SLURM_MINE": "kept"}}, **{"train.py": DUMP}), **told, SLURMY="kept")
    seen = environment_of(view)
    assert not set(told) & set(seen)
    assert (seen["SLURM_MINE"], seen["SLURMY"]) == ("kept", "kept")

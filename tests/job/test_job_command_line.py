"""Job files through the command line: wrong ones end with 2, tell everything on stderr, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from job_files import write
from jsonschema import Draft202012Validator

from conftest import Muster, WriteJob, needs_ssh

WRONG = """\
name: a/b
boot: nope.py
nodes: 900
devices: 800
devics: 3
env: {HF_TOKEN: hunter2}
secrets: [NOT_SET]
framework: paddle
"""


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


@pytest.mark.long
@pytest.mark.parametrize("options", [["--check"], [], ["--dry-run"], ["--detach"]])
def test_a_wrong_job_is_told_completely_and_nothing_is_created(
    muster: Muster, tmp_path: Path, home: Path, options: list[str]
) -> None:
    path = write(tmp_path, WRONG)
    before = files(tmp_path)
    done = muster("run", path, *options, "--set", "grace=1")
    assert done.returncode == 2
    assert done.stdout == ""
    told = [line.removeprefix(f"muster: {path}:").removeprefix("muster: ") for line in done.stderr.splitlines()]
    assert [line.partition(" ")[0] for line in told] == ["1:", "2:", "3:", "5:", "6:", "7:", "--set", "7"]
    assert "`nodes` and `devices` need 720900 ports" in told[2]
    assert "names `NOT_SET`, which is not set; export NOT_SET, or put it into a profile" in told[5]
    assert told[-1] == "7 problems; nothing was started"
    assert "hunter2" not in done.stderr
    assert files(tmp_path) == before
    assert not home.exists()


def test_a_wrong_job_is_shown_as_json_too(muster: Muster, tmp_path: Path, home: Path) -> None:
    path = write(tmp_path, WRONG)
    done = muster("run", path, "--check", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 2
    assert [(problem["line"], problem["field"]) for problem in told["problems"]] == [
        (1, "name"),
        (2, "boot"),
        (3, "nodes"),
        (5, "devics"),
        (6, "env.HF_TOKEN"),
        (7, "secrets"),
    ]
    assert all(problem["file"] == str(path) and problem["message"] and problem["hint"] for problem in told["problems"])
    assert told["run"] is None
    assert "hunter2" not in done.stdout
    assert not home.exists()


def test_a_job_without_problems_is_checked_and_nothing_is_created(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"nodes": 2, "framework": "pytorch", "devices": 3}, **{"train.py": ""})
    done = muster("run", job, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no problems" in done.stdout
    assert "6 ranks on 2 nodes" in done.stdout
    assert not home.exists()


def test_the_checked_job_is_shown_as_json(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"time_limit": "90m"}, **{"train.py": ""})
    done = muster("run", job, "--check", "--json", "--set", "parameters.lr=1e-3")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["ok"] is True
    assert (told["job"]["time_limit"], told["job"]["parameters"]) == (5400.0, {"lr": "1e-3"})
    assert not home.exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"command: [\n", "job.yaml:2: is not YAML"),
        (b"\xff\xfe", "job.yaml:1: is not UTF-8 text"),
        (b"command: a\0b\n", "job.yaml:1: holds the character U+0000"),
        (b"command: x\n" + b"#" * (10 << 20), "job.yaml: is larger than 1 MB"),
        (b"[" * 100_000, "job.yaml:1: is nested more than 30 levels"),
        (b"", "job.yaml: is empty"),
        (b"boot: nope.py\n", "job.yaml:1: `boot` names `nope.py`, which is not in"),
        (b"boot: train.py\ncode: ./nope\n", "job.yaml:2: `code` names"),
    ],
    ids=["syntax", "encoding", "nul", "10 MB", "nesting", "empty", "boot", "code"],
)
def test_a_single_problem_gives_a_single_line_and_no_traceback(muster: Muster, tmp_path: Path, data: bytes, said: str) -> None:
    done = muster("run", write(tmp_path, data), "--check")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("job", ["missing.yaml", "."])
def test_a_job_file_that_cannot_be_read_is_wrong_input(muster: Muster, job: str) -> None:
    done = muster("run", job)
    assert done.returncode == 2
    assert f"muster: {job}: cannot be read" in done.stderr


def test_a_current_directory_that_is_gone_is_wrong_input(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@" run --check -- true'
    done = subprocess.run(["bash", "-c", script, str(tmp_path / "gone"), *command], capture_output=True, text=True)
    assert done.returncode == 2
    assert "the current directory, which is gone" in done.stderr


def test_bytes_that_are_no_text_in_an_override_are_wrong_input(muster: Muster, tmp_path: Path) -> None:
    done = muster("run", write(tmp_path, "command: x\n"), "--check", "--set", "name=\udcff")
    assert done.returncode == 2
    assert "U+DCFF" in done.stderr


def test_a_job_file_and_a_command_exclude_each_other(muster: Muster, tmp_path: Path, home: Path) -> None:
    path = write(tmp_path, "command: x\n")
    for words in [("run", path, "--", "echo", "x"), ("run", path, "--")]:
        done = muster(*words)
        assert done.returncode == 2
        assert "both a job file" in done.stderr
        assert "keep one" in done.stderr
    assert not home.exists()


@pytest.mark.parametrize("words", [["run"], ["run", "--"], ["run", "--nodes", "2"]])
def test_a_run_of_nothing_is_told_what_to_name(muster: Muster, words: list[str]) -> None:
    done = muster(*words)
    assert done.returncode == 2
    assert "name a job file, or write the command behind `--`" in done.stderr


def test_options_of_a_command_line_job_are_checked_like_fields(muster: Muster, home: Path) -> None:
    done = muster("run", "--check", "--nodes", "0", "--device", "gpu", "--framework", "torch", "--", "python", "train.py")
    assert done.returncode == 2
    for said in ("`nodes: 0` is too small", "did you mean `nvidia`?", "did you mean `pytorch`?"):
        assert said in done.stderr
    assert not home.exists()


def test_a_command_line_job_runs_its_words_as_they_are(muster: Muster, tmp_path: Path) -> None:
    done = muster("run", "--check", "--json", "--nodes", "2", "--devices", "4", "--", "python", "train.py", "--", "a b", "")
    job: dict[str, Any] = json.loads(done.stdout)["job"]
    assert job["command"] == ["python", "train.py", "--", "a b", ""]
    assert (job["name"], job["nodes"], job["devices"], job["per"]) == ("train", 2, 4, "device")
    assert job["code"] == str(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["--framework", "pytorch"],
        ["--set", "framework=pytorch"],
        pytest.param(["--set", "framework='mpi'"], marks=needs_ssh),
    ],
)
def test_nobody_is_told_of_a_field_that_he_did_not_write(muster: Muster, words: list[str]) -> None:
    done = muster("run", "--check", *words, "--devices", "2", "--", "python", "train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(2 ranks on 1 node)" in done.stdout


def test_another_framework_can_be_tried_with_what_ran_before(muster: Muster) -> None:
    assert muster("run", "--devices", "2", "--", "true").returncode == 0
    done = muster("rerun", "last", "--set", "framework=pytorch")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", ["boot=train.py", "command=true", " command = true"])
def test_words_behind_the_dashes_are_never_dropped(muster: Muster, tmp_path: Path, change: str) -> None:
    (tmp_path / "train.py").write_text("")
    done = muster("run", "--check", "--set", change, "--", "python", "other.py")
    assert done.returncode == 2
    assert f"both --set {change} and a command behind `--` are given; keep one of them" in done.stderr


def test_a_boot_file_that_the_snapshot_leaves_out_is_refused(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"boot": "local/train.py"}, **{"local/train.py": "", ".musterignore": "local/\n"})
    done = muster("run", job, "--check")
    assert done.returncode == 2
    assert "`boot` names `local/train.py`, which is left out of the code" in done.stderr
    assert ".musterignore" in done.stderr


def test_a_secret_comes_from_a_profile_unless_the_environment_has_it(muster: Muster, write_job: WriteJob, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[profiles.default.secrets]\nAPI_KEY = "from-the-profile"\n')
    (home / "config.toml").chmod(0o600)
    job = write_job({"command": 'echo "${#API_KEY} letters"', "secrets": ["API_KEY"]})
    assert "16 letters" in muster("run", job).stdout
    assert "4 letters" in muster("run", job, API_KEY="mine").stdout
    kept = [path for path in home.rglob("*") if path.is_file() and path.name != "config.toml"]
    assert kept
    assert not [path for path in kept if b"from-the-profile" in path.read_bytes()]


def test_settings_that_cannot_be_used_are_wrong_input(muster: Muster, write_job: WriteJob, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[lcoal]\n")
    done = muster("run", write_job({"command": "true"}), "--check")
    assert done.returncode == 2
    assert "`lcoal` is not known" in done.stderr
    assert not (home / "runs").exists()


def test_a_wrong_endpoint_hides_nothing_that_is_wrong_with_the_job(muster: Muster, tmp_path: Path, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[storage]\nendpoint = "http//store"\n')
    path = write(tmp_path, "command: x\nnodes: 0\ndevics: 1\n")
    done = muster("run", path, "--check")
    assert done.returncode == 2
    told = done.stderr.splitlines()
    assert [line.partition(" `")[0] for line in told[:2]] == [f"muster: {path}:2:", f"muster: {path}:3:"]
    assert "the endpoint `http//store` lacks a colon" in told[2]
    assert told[3] == "muster: 3 problems; nothing was started"


def test_the_schema_command_prints_a_schema(muster: Muster, home: Path) -> None:
    done = muster("schema")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    Draft202012Validator.check_schema(schema)
    assert Draft202012Validator(schema).is_valid({"command": "x", "device": "cpu"})
    assert not Draft202012Validator(schema).is_valid({"command": "x", "device": "gpu"})
    assert not home.exists()

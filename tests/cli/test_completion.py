"""Completion in the shells: commands, options, and run ids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from going import only_run

from conftest import Muster, WriteJob


@pytest.fixture
def path() -> str:
    """A PATH that finds the command `muster`."""
    folder = str(Path(sys.executable).parent)
    assert shutil.which("muster", path=folder), "muster is not installed beside this Python"
    return f"{folder}:{os.environ['PATH']}"


def completions(path: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    script = f"""
source <(muster completion bash)
COMP_WORDS=(muster {" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words)}
compopt() {{ echo "$@"; }}
_muster_completion muster
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.long
def test_bash_completes_commands_and_options(path: str) -> None:
    assert completions(path, "r") == ["run", "reconcile", "rerun", "report", "resume", "rm", "ranktable"]
    assert completions(path, "logs", "--f") == ["--follow", "--from"]
    assert completions(path, "ps", "--state", "st") == ["starting", "stopping", "stopped"]


def test_bash_completes_groups_of_hosts(path: str, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[hosts.lab]\nnodes = ["a"]\n[hosts.large]\nnodes = ["b"]\n')
    assert completions(path, "doctor", "--hosts", "la") == ["lab", "large"]
    assert completions(path, "run", "--hosts", "lar") == ["large"]


def test_bash_completes_job_files(path: str) -> None:
    assert completions(path, "run", "jo")[:2] == ["-o", "default"]


@pytest.mark.long
def test_bash_completes_run_ids_the_newest_first(path: str, muster: Muster, write_job: WriteJob) -> None:
    ids = [muster("run", write_job({"command": "true", "name": name}), "--detach").stdout.strip() for name in ("ab", "ac", "b")]
    for run_id in ids:
        muster("wait", run_id)
    for command in ("show", "logs", "wait", "stop", "reconcile", "rerun", "exec", "rm"):
        assert completions(path, command, "a") == [ids[1], ids[0]]
    assert completions(path, "show", "") == ["last", *ids[::-1]]
    assert completions(path, "show", "zz") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_key_press_completes_a_run_id(shell: str, path: str, muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    muster("run", write_job({"command": "true", "name": "resnet"}))
    script = tmp_path / "completion"
    script.write_text(muster("completion", shell).stdout)
    quiet = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}[shell]
    load = {"bash": "", "zsh": "autoload -Uz compinit && compinit -u -D; ", "fish": ""}[shell] + f"source {script}"
    settings = {**os.environ, "PATH": path, "TERM": "xterm", "HOME": str(tmp_path), "PS1": "> "}
    child = pexpect.spawn(shell, quiet, env=settings, encoding="utf-8", timeout=30)
    try:
        child.sendline(f"{load}; echo load''ed")
        child.expect_exact("loaded")
        child.send("muster show resn\t")
        child.expect_exact(only_run()[len("resn") :])
    finally:
        child.close(force=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(muster: Muster, shell: str) -> None:
    script = muster("completion", shell).stdout
    assert f"_MUSTER_COMPLETE={shell}_complete" in script
    assert {"bash": "complete -o", "zsh": "compdef", "fish": "complete --no-files --command muster"}[shell] in script


def test_other_shells_are_refused(muster: Muster) -> None:
    done = muster("completion", "tcsh")
    assert done.returncode == 2
    assert "bash" in done.stderr

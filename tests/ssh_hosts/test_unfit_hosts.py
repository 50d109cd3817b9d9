"""Hosts that cannot be used, or not any more: one sentence with the host, the reason and what to do."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from conftest import Muster, WriteJob
from host_machines import Machines

RunJson = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.long

BOOT = {"python": "python3"}  # of the hosts

MISTAKES = {
    "unknown": ("h9", "name cannot be resolved"),
    "silent": ("10.77.250.250", "does not answer"),
    "user": ("stranger@h1", "does not accept your key; install one with `ssh-copy-id stranger@h1`"),
    "port": ("h1:2222", "nothing listens at its ssh port"),
}


@pytest.mark.parametrize("mistake", ["unknown", "user", "port"])
def test_a_host_that_cannot_be_used_is_one_sentence_with_what_to_do(
    mistake: str, machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    host, words = MISTAKES[mistake]
    on_hosts(host)
    view = run_json(write_job({"command": "true"}))
    assert view["state"] == "failed"
    assert view["reason"].startswith(f"{host}: ")
    assert words in view["reason"]


@pytest.mark.parametrize("how", ["unknown", "changed", "accepted"])
def test_a_host_key_that_is_not_known_is_never_accepted(
    how: str, machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1")
    known = machines.folder / "known_hosts"
    before = known.read_text()
    other = (machines.home("h2") / "host_key.pub").read_text()
    known.write_text(f"h1,{machines.address('h1')} {other}" if how == "changed" else "")
    accepting = machines.configured("Host *\n  StrictHostKeyChecking accept-new\n")  # which is for people at a terminal
    try:
        with accepting if how == "accepted" else nullcontext():
            view = run_json(write_job({"command": "true"}))
        assert view["state"] == "failed"
        assert ("not the one in your known_hosts" if how == "changed" else "host key is not known here") in view["reason"]
        assert known.read_text().count("\n") == (how == "changed")
    finally:
        known.write_text(before)


@pytest.mark.parametrize("how", ["none", "named"])
def test_a_host_without_python_is_told_as_such(
    how: str, machines: Machines, on_hosts: Callable[..., None], muster: Muster, run_json: RunJson, write_job: WriteJob
) -> None:
    with machines.without_python("h2") if how == "none" else nullcontext():
        on_hosts("h1", "h2", **({"python": "/opt/python3.12"} if how == "named" else {}))
        job = write_job({"command": "true", "nodes": 2})
        checked = muster("run", job, "--check")
        view = run_json(job)
    host = "h2" if how == "none" else "h1"
    words = "it has no Python 3.9 or newer; install one, or name it with `python` in the group of hosts"
    assert (checked.returncode, f"{host}, which cannot be used: {words}" in checked.stderr) == (2, True), checked.stderr
    assert view["state"] == "failed"
    assert re.fullmatch(f"h[12]: {words}", view["reason"])


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ("", "chmod 775", "others may write to /root/own"),
        ("/blobs", "chmod 777", "others may write to /root/own/blobs"),
        ("", "chown trainer", "/root/own belongs to user 4711"),
    ],
)
def test_a_directory_that_other_users_may_change_is_refused(
    place: str,
    change: str,
    words: str,
    machines: Machines,
    on_hosts: Callable[..., None],
    muster: Muster,
    run_json: RunJson,
    write_job: WriteJob,
) -> None:
    """They could exchange the agent, which runs as the user."""
    subprocess.run([machines.bin / "ssh", "h1", f"mkdir -p /root/own/blobs; {change} /root/own{place}"], check=True)
    try:
        on_hosts("h1", directory="/root/own")
        view, doctor = run_json(write_job({"command": "true"})), muster("doctor", "--hosts", "lab")
    finally:
        subprocess.run([machines.bin / "ssh", "h1", "rm -r /root/own"], check=True)
    assert view["state"] == "failed"
    assert view["reason"].startswith(f"h1: its directory for Muster may be changed by other users ({words}); ")
    assert (doctor.returncode, f"may be changed by other users ({words})" in doctor.stdout) == (1, True), doctor.stdout


@pytest.mark.parametrize("size", ["64k", "5m"])
def test_a_full_disk_on_a_host_is_told_as_such(
    size: str, machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    """The first is too small for the agent, the second for the code."""
    subprocess.run([machines.bin / "ssh", "h1", f"mount -t tmpfs -o size={size} tmpfs /mnt"], check=True)
    try:
        on_hosts("h1", directory="/mnt/muster")
        view = run_json(write_job({**BOOT}, **{"train.py": "print('hello')", "weights.txt": "x" * (8 << 20)}))
        assert view["state"] == "failed"
        assert "no space left on device" in view["reason"].lower()
        assert view["reason"].startswith("h1: ")
    finally:
        subprocess.run([machines.bin / "ssh", "h1", "umount -l /mnt"], check=True)


def test_a_disk_that_fills_up_in_the_middle_of_a_run_is_told_as_such(
    machines: Machines, on_hosts: Callable[..., None], run_json: RunJson, write_job: WriteJob
) -> None:
    subprocess.run([machines.bin / "ssh", "h1", "mount -t tmpfs -o size=32m tmpfs /mnt"], check=True)
    train = "import os\nfor _ in range(1000):\n    os.write(1, b'x' * 99_999 + b'\\n')\n"
    try:
        on_hosts("h1", directory="/mnt/muster")
        view = run_json(write_job({**BOOT, "grace": "1s"}, **{"train.py": train}))
    finally:
        subprocess.run([machines.bin / "ssh", "h1", "umount -l /mnt"], check=True)
    assert view["state"] == "failed"
    assert view["reason"] == (
        "the agent of node 0 (h1) ended, because no space is left on its disk; free some, and run the job again"
    )

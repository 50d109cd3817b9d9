"""`muster run --check` and `device: auto` on hosts over real ssh: what they lack for a job is told before anything starts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_devices import Gpus, Npus
from furnished import Furnish, made
from furnished import furnish as furnish
from furnished import python_of_h1 as python_of_h1
from furnished import shown as shown

from conftest import Muster, WriteJob
from host_machines import Machines

pytestmark = pytest.mark.long

OnHosts = Callable[..., None]


def test_check_names_every_host_that_lacks_something_at_once(
    machines: Machines, on_hosts: OnHosts, muster: Muster, write_job: WriteJob, furnish: Furnish, shown: Path, home: Path
) -> None:
    on_hosts("h1", "h2", "h3", "h4", directory="~/surveyed")
    furnish("h1", Gpus(shown / "four", 4))
    furnish("h2", Gpus(shown / "two", 2))
    machines.power_off("h4")
    try:
        job = write_job({"command": "true", "device": "nvidia", "nodes": 4, "devices": 4})
        done = muster("run", job, "--hosts", "lab", "--check")
    finally:
        machines.boot("h4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`devices` asks for 4 nvidia devices, and h2 has 2; use fewer" in done.stderr
    assert "`device` asks for nvidia devices, and h3 has none" in done.stderr
    assert "`hosts` has h4, which cannot be used: nothing listens at its ssh port" in done.stderr
    assert "h1 has" not in done.stderr
    assert "3 problems; nothing was started" in done.stderr
    assert os.listdir(home) == ["config.toml"]
    assert len(made(machines, "h1")) == 2, "the folder of blobs, and the agent"


def test_check_asks_whether_the_code_fits_on_the_disks(
    machines: Machines, on_hosts: OnHosts, muster: Muster, write_job: WriteJob
) -> None:
    subprocess.run([machines.bin / "ssh", "h1", "mount -t tmpfs -o size=90m tmpfs /mnt"], check=True)
    try:
        on_hosts("h1", directory="/mnt/muster")
        small = muster("run", write_job({"command": "true"}), "--check")
        job = write_job({"command": "true"}, **{"weights.bin": "x" * (20 << 20)})
        large = muster("run", job, "--check")
    finally:
        subprocess.run([machines.bin / "ssh", "h1", "umount -l /mnt"], check=True)
    assert small.returncode == 0, small.stderr
    assert large.returncode == 2
    assert "`hosts` has h1, which cannot be used: /mnt/muster has" in large.stderr


def test_check_asks_for_the_python_of_the_job(
    on_hosts: OnHosts, muster: Muster, write_job: WriteJob, python_of_h1: str, home: Path
) -> None:
    on_hosts("h1", "h2")
    fields = {"python": python_of_h1, "nodes": 2}
    done = muster("run", write_job(fields, **{"train.py": "print('never')"}), "--check")
    assert done.returncode == 2
    assert f"`python` is /root/python3, which h2 ({platform.machine()}) does not have" in done.stderr
    assert "which h1" not in done.stderr
    brought = muster("run", write_job({**fields, "setup": "true"}, **{"train.py": "print('never')"}), "--check")
    assert brought.returncode == 0
    assert "h2 has no /root/python3 yet; `setup` or `env` of the job has to bring it" in brought.stderr
    assert os.listdir(home) == ["config.toml"]


def test_check_warns_of_hosts_that_differ(
    on_hosts: OnHosts, muster: Muster, write_job: WriteJob, furnish: Furnish, shown: Path
) -> None:
    on_hosts("h1", "h2")
    furnish("h1", Gpus(shown / "four", 4))
    furnish("h2", Gpus(shown / "two", 2))
    job = write_job({"command": "true", "device": "nvidia", "nodes": 2, "devices": 2, "memory": "900T"})
    done = muster("run", job, "--check")
    assert done.returncode == 0, done.stderr
    assert "hosts have different devices: 4 × NVIDIA A100-SXM4-40GB on h1; 2 × NVIDIA A100-SXM4-40GB on h2" in done.stderr
    assert "the job asks for 900.0T of memory per node; h1 has" in done.stderr
    silent = muster("run", job, "--check", "--device", "cpu", "--set", "memory=1G")
    assert silent.stderr == "", "devices do not matter then"


@pytest.mark.parametrize("having", ["both", "one", "none"])
def test_auto_is_the_kind_that_all_hosts_have(
    having: str, on_hosts: OnHosts, muster: Muster, write_job: WriteJob, furnish: Furnish, shown: Path, home: Path
) -> None:
    on_hosts("h1", "h2")
    for name in {"both": ("h1", "h2"), "one": ("h2",), "none": ()}[having]:
        furnish(name, Npus(shown / name, 0, 1))
    job = write_job({"command": "true", "device": "auto", "nodes": 2})
    done = muster("run", job, "--dry-run", "--json")
    if having == "one":
        assert done.returncode == 2
        assert "`device` is `auto`, and hosts have different devices: none on h1; 2 × Ascend 910B3 on h2" in done.stderr
    else:
        assert json.loads(done.stdout)["job"]["device"] == {"both": "ascend", "none": "cpu"}[having]
    assert os.listdir(home) == ["config.toml"]


def test_auto_names_all_hosts_that_cannot_be_asked(
    machines: Machines, on_hosts: OnHosts, muster: Muster, write_job: WriteJob, home: Path
) -> None:
    on_hosts("h1", "stranger@h2", "h9")
    done = muster("run", write_job({"command": "true", "device": "auto", "nodes": 3}))
    assert done.returncode == 2
    assert "`hosts` has stranger@h2, which cannot be used: it does not accept your key" in done.stderr
    assert "`hosts` has h9, which cannot be used: its name cannot be resolved" in done.stderr
    assert os.listdir(home) == ["config.toml"]


def test_a_named_device_asks_no_host_before_the_run(on_hosts: OnHosts, muster: Muster, write_job: WriteJob) -> None:
    on_hosts("h9")
    assert muster("run", write_job({"command": "true"}), "--dry-run").returncode == 0

"""`muster doctor --hosts` on hosts over real ssh: what they have, and what is in the way."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest
from fake_devices import Gpus, Npus
from furnished import Furnish, made
from furnished import furnish as furnish
from furnished import python_of_h1 as python_of_h1
from furnished import shown as shown

from conftest import Muster
from host_machines import Machines

pytestmark = pytest.mark.long

OnHosts = Callable[..., None]
Ask = Callable[..., dict[str, Any]]

HANGING = "#!/bin/sh\nexec sleep 600\n"


@pytest.fixture
def ask(muster: Muster) -> Ask:
    """Asks the doctor; returns its JSON with the exit code."""

    def call(*words: object) -> dict[str, Any]:
        done = muster("doctor", "--hosts", "lab", "--json", *words)
        found: dict[str, Any] = json.loads(done.stdout)
        return {**found, "code": done.returncode}

    return call


@pytest.fixture
def hanging_h2(machines: Machines) -> Iterator[None]:
    """The login shell of h2 never does anything."""
    passwd = machines.home("h2") / "passwd"
    before = passwd.read_text()
    shell = machines.home("h2") / "hanging"
    shell.write_text(HANGING)
    shell.chmod(0o755)
    passwd.write_text(before.replace(":/root:/bin/bash", ":/root:/root/hanging"))
    yield
    passwd.write_text(before)
    for pid in machines.named("h2", "sleep"):  # a shell that does not read is not told that its session is over
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_hosts_that_are_well_are_a_table_in_the_order_of_the_group(
    machines: Machines, on_hosts: OnHosts, muster: Muster, ask: Ask, home: Path
) -> None:
    on_hosts("h3", "h1", "trainer@h2", ssh=True, directory="~/surveyed")
    done = muster("doctor", "--hosts", "lab")
    assert done.returncode == 0, done.stdout + done.stderr
    heads, *rows = done.stdout.splitlines()
    assert heads.split() == "HOST PYTHON CPUS MEMORY DISK /TMP CLOCK NAMESPACES SSH DEVICES".split()
    assert [row.split()[:2] for row in rows[:3]] == [["✓", "h3"], ["✓", "h1"], ["✓", "trainer@h2"]]
    assert rows[-1] == "3 of 3 hosts can run jobs"
    found = ask()
    assert (found["fit"], found["code"]) == (True, 0)
    for host, name in zip(found["hosts"], ["h3", "h1", "h2"], strict=True):
        assert (host["reached"], host["in_the_way"]) == (True, [])
        assert (host["machine"], host["cpus"]) == (platform.machine(), len(os.sched_getaffinity(0)))
        assert host["memory"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert host["python"].startswith("3.")
        assert host["python_path"].startswith("/")
        assert host["directory"]["free"] > 0 < host["tmp"]["free"]
        assert (host["address"], host["ssh"]) == (machines.address(name), "")
        assert abs(host["clock"]) - host["clock_error"] < 1, "both are this machine's"
    assert os.listdir(home) == ["config.toml"]
    assert len(made(machines, "h3")) == 2, "the folder of blobs, and the agent"


def test_a_host_that_is_switched_off_is_named_with_the_reason(
    machines: Machines, on_hosts: OnHosts, muster: Muster, ask: Ask
) -> None:
    on_hosts("h1", "h2", "stranger@h3", "h9")
    machines.power_off("h2")
    try:
        found, text = ask(), muster("doctor", "--hosts", "lab").stdout
    finally:
        machines.boot("h2")
    assert (found["fit"], found["code"]) == (False, 1)
    assert [(host["host"], host["reached"]) for host in found["hosts"]] == [
        ("h1", True),
        ("h2", False),
        ("stranger@h3", False),
        ("h9", False),
    ]
    reasons = [host["in_the_way"] for host in found["hosts"]]
    assert reasons[0] == []
    assert "nothing listens at its ssh port; start sshd there" in reasons[1][0]
    assert "install one with `ssh-copy-id stranger@h3`" in reasons[2][0]
    assert "its name cannot be resolved" in reasons[3][0]
    assert "1 of 4 hosts can run jobs" in text
    assert all(reason[0] in text for reason in reasons[1:])


def test_a_host_without_python_is_reached_and_not_fit(
    machines: Machines, on_hosts: OnHosts, ask: Ask, python_of_h1: str
) -> None:
    on_hosts("h1", "h2", python=python_of_h1)
    found = ask()
    assert [(host["reached"], bool(host["in_the_way"])) for host in found["hosts"]] == [(True, False), (True, True)]
    assert "no Python 3.9 or newer" in found["hosts"][1]["in_the_way"][0]
    assert found["code"] == 1


@pytest.mark.parametrize(("size", "words"), [("64k", "No space left on device"), ("8m", "free, and 64M are needed")])
def test_a_full_disk_is_in_the_way(size: str, words: str, machines: Machines, on_hosts: OnHosts, ask: Ask) -> None:
    """The first is too small for the agent, the second for a run."""
    subprocess.run([machines.bin / "ssh", "h1", f"mount -t tmpfs -o size={size} tmpfs /mnt"], check=True)
    try:
        on_hosts("h1", "h2", directory="/mnt/muster")
        subprocess.run([machines.bin / "ssh", "h2", "mount -t tmpfs -o size=2g tmpfs /mnt"], check=True)
        found = ask()
        left = subprocess.run([machines.bin / "ssh", "h1", "find /mnt -name '*.tmp'"], capture_output=True, text=True).stdout
    finally:
        for name in ("h1", "h2"):
            subprocess.run([machines.bin / "ssh", name, "umount -l /mnt"], check=True)
    assert [bool(host["in_the_way"]) for host in found["hosts"]] == [True, False]
    assert words in found["hosts"][0]["in_the_way"][0]
    assert left == "", "a part of the agent is not left there"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"directory": "/root/mine"}, "its directory for Muster cannot be used (Permission denied: /root/mine"),
        ({"interface": "ib7"}, "it has no network interface `ib7` that is up; it has lo, eth0"),
    ],
)
def test_what_is_in_the_way_is_said(options: dict[str, str], words: str, on_hosts: OnHosts, ask: Ask) -> None:
    on_hosts("trainer@h1", **options)
    found = ask()
    assert found["code"] == 1
    assert words in found["hosts"][0]["in_the_way"][0]


def test_a_shell_that_hangs_never_hangs_the_table(
    machines: Machines, on_hosts: OnHosts, ask: Ask, command: list[str], hanging_h2: None
) -> None:
    on_hosts("h1", "h2", "h3")
    found = ask("--timeout", "3s")
    assert [bool(host["in_the_way"]) for host in found["hosts"]] == [False, True, False]
    assert found["hosts"][1]["in_the_way"] == ["it has not answered within 3s; check that `ssh h2 true` returns"]
    child = pexpect.spawn(
        command[0], [*command[1:], "doctor", "--hosts", "lab", "--timeout", "4s"], encoding="utf-8", timeout=60
    )
    child.expect_exact("asking 3 hosts, waiting for h2")
    child.expect_exact("2 of 3 hosts can run jobs")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1


def test_an_interrupt_leaves_no_ssh_behind(machines: Machines, on_hosts: OnHosts, command: list[str], hanging_h2: None) -> None:
    on_hosts("h1", "h2")
    child = pexpect.spawn(command[0], [*command[1:], "doctor", "--hosts", "lab"], encoding="utf-8", timeout=60)
    child.expect_exact("waiting for h2")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("lap", "config.toml has no group `lap`, and no host has that name; did you mean `lab`?"),
        ("elsewhere", "there are `lab`"),
        ("a b", "names the group `a b`, which config.toml does not have"),
        ("a,-oProxyCommand=x", "`-oProxyCommand=x` is not a host"),
    ],
)
def test_an_unknown_group_is_a_mistake(hosts: str, words: str, on_hosts: OnHosts, muster: Muster) -> None:
    on_hosts("h1")
    done = muster("doctor", "--hosts", hosts)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_group_with_one_unknown_host_is_a_row(on_hosts: OnHosts, muster: Muster, ask: Ask) -> None:
    on_hosts("h9")
    found = ask()
    assert (found["code"], [host["host"] for host in found["hosts"]]) == (1, ["h9"])
    twice = json.loads(muster("doctor", "--hosts", "h1,h1,h2", "--json").stdout)
    assert [host["host"] for host in twice["hosts"]] == ["h1", "h2"]


def test_a_host_that_kills_what_runs_in_a_session_at_its_end_is_noted(
    machines: Machines, on_hosts: OnHosts, muster: Muster
) -> None:
    on_hosts("trainer@h1")
    machines.set_environment("h1", XDG_SESSION_ID="3")  # as logind does
    folder = "/run/systemd/logind.conf.d"
    script = f"mkdir -p {folder}; printf '[Login]\\nKillUserProcesses=yes\\n' > {folder}/kill.conf"
    subprocess.run([machines.bin / "ssh", "h1", script], check=True)
    try:
        done = muster("doctor", "--hosts", "lab")
    finally:
        subprocess.run([machines.bin / "ssh", "h1", "rm -r /run/systemd"], check=True)
    assert (done.returncode, f"KillUserProcesses=yes in {folder}/kill.conf" in done.stdout) == (0, True), done.stdout


def test_links_are_measured_around_a_ring(machines: Machines, on_hosts: OnHosts, ask: Ask, muster: Muster) -> None:
    on_hosts("h1", "h2", "h3", interface="eth0")
    found = ask("--links")
    assert found["code"] == 0
    assert [(link["source"], link["target"]) for link in found["links"]] == [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]
    for link in found["links"]:
        assert (link["source_address"], link["target_address"]) == tuple(
            map(machines.address, (link["source"], link["target"]))
        )
        assert link["bytes_per_second"] > 0
    on_hosts("h1", "h2")
    text = muster("doctor", "--hosts", "lab", "--links").stdout
    assert f"{machines.address('h1')} → {machines.address('h2')}" in text


def test_hosts_that_do_not_reach_each_other_are_named_with_the_address(on_hosts: OnHosts, ask: Ask, muster: Muster) -> None:
    """At the addresses of this interface each host reaches only itself."""
    on_hosts("h1", "h2", interface="lo")
    found = ask("--links")
    assert (found["fit"], found["code"]) == (False, 1)
    reason = "127.0.0.1 cannot be reached from h1 (127.0.0.1): connection refused"
    assert found["links"][0]["problem"].startswith(reason)
    text = muster("doctor", "--hosts", "lab", "--links").stdout
    assert reason in text
    assert text.endswith("2 of 2 hosts can run jobs; 2 of 2 links do not work\n")


def test_devices_are_those_that_the_hosts_find_themselves(
    on_hosts: OnHosts, ask: Ask, muster: Muster, furnish: Furnish, shown: Path
) -> None:
    on_hosts("h1", "h2", "h3")
    furnish("h1", Npus(shown / "npus", 0))
    furnish("h2", Gpus(shown / "gpus", 4))
    found = ask()
    [ascend] = [kind for kind in found["hosts"][0]["accelerators"] if kind["kind"] == "ascend"]
    assert [(device["id"], device["name"], device["ip"]) for device in ascend["devices"]] == [
        ("0", "Ascend 910B3", "192.168.0.1")
    ]
    [gpus] = [kind for kind in found["hosts"][1]["accelerators"] if kind["kind"] == "nvidia"]
    assert [device["name"] for device in gpus["devices"]] == ["NVIDIA A100-SXM4-40GB"] * 4
    assert found["hosts"][2]["accelerators"] == []
    assert "nvidia: nvidia-smi does not work: code 9" in found["hosts"][0]["notes"]
    text = muster("doctor", "--hosts", "lab").stdout
    assert "1 × Ascend 910B3\n" in text
    assert "4 × NVIDIA A100-SXM4-40GB\n" in text
    assert "hosts have different devices: 1 × Ascend 910B3 on h1; 4 × NVIDIA A100-SXM4-40GB on h2; none on h3" in text

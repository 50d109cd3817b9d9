"""What is made of the answers of hosts: whether they are fit, in what they differ, and that no answer does harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Muster
from muster.devices import DeviceInfo
from muster.engines.ssh import fitness, report
from muster.engines.ssh.node.host import logind
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.report import Accelerators, Disk, Report
from muster.job import Job

MUCH = Disk("/", 1 << 40)
HOSTS = HostsOptions(nodes=("h1",), namespaces=True)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
# Answers whose names are right and whose values are not.
LIKELY = st.dictionaries(
    st.sampled_from(
        "python machine cpus memory directory tmp ssh reached kinds devices id name ip kind trouble driver".split()
    ),
    ANYTHING | st.just([{"kind": "nvidia", "devices": [{"id": "x"}, {"id": "0", "name": 7}, 4], "trouble": [1]}]),
)


def well(host: str, **facts: Any) -> Report:
    return Report(
        host, **{"reached": True, "address": "10.0.0.1", "directory": MUCH, "tmp": MUCH, "machine": "x86_64", **facts}
    )


def having(host: str, kind: str, count: int, name: str = "A100", driver: str = "") -> Report:
    return well(host, accelerators=(Accelerators(kind, tuple(DeviceInfo(str(id), name) for id in range(count)), driver),))


@given(answer=LIKELY | ANYTHING)
def test_no_answer_of_a_host_is_too_odd_to_be_read(answer: Any) -> None:
    data = answer if isinstance(answer, dict) else {}
    found = well("h1", **{**report.fields(data), "accelerators": report.accelerators(data)})
    fitness.in_the_way(found, HOSTS)
    fitness.notes(found, HOSTS)
    assert fitness.common_kind([found]) in ("nvidia", "ascend", "cpu", "")
    assert "\n" not in fitness.described(found)
    assert report.seconds(answer) == report.seconds(answer), "it is a number"
    assert report.address(answer) == ""


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"problem": "it does not answer"}, "it does not answer"),
        ({"directory": Disk("/d", 1 << 20)}, "/d has 1.0M free, and 64M are needed; free some"),
        ({"directory": Disk("/d", 1 << 40, "read-only file system")}, "/d cannot be written: read-only file system"),
        ({"tmp": Disk("/tmp", 1 << 40, "permission denied")}, "/tmp cannot be written: permission denied"),
        ({"address": ""}, "it has no route to the other hosts"),
        ({"address": "", "no_address": "it has no network interface `ib0`"}, "it has no network interface `ib0`"),
    ],
)
def test_what_prevents_a_run_is_in_the_way(facts: dict[str, Any], words: str) -> None:
    [reason] = fitness.in_the_way(well("h1", **facts), HOSTS)
    assert words in reason
    assert fitness.in_the_way(well("h1"), HOSTS) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"clock": 90.0}, "its clock is 1m30s ahead"),
        ({"clock": -4000.0}, "its clock is 1h6m behind; stores may refuse its requests"),
        ({"directory": Disk("/d", 100 << 20)}, "/d has only 100M free"),
        ({"namespaces": "not permitted"}, "no namespaces (not permitted)"),
        ({"logout": "/etc/systemd/logind.conf"}, "KillUserProcesses=yes in /etc/systemd/logind.conf"),
        ({"ssh": "there is no sshd"}, "no logins between nodes: there is no sshd"),
        ({"accelerators": (Accelerators("ascend", (DeviceInfo("0"),)),)}, "rank tables need /etc/hccn.conf"),
        ({"accelerators": (Accelerators("nvidia", trouble="it broke"),)}, "nvidia: it broke"),
    ],
)
def test_what_prevents_nothing_is_a_note(facts: dict[str, Any], words: str) -> None:
    found = well("h1", **facts)
    assert fitness.in_the_way(found, HOSTS) == []
    [note] = fitness.notes(found, HOSTS)
    assert words in note


KILLS = "[Login]\nKillUserProcesses=yes\n"


@pytest.mark.parametrize(
    ("files", "user", "by"),
    [
        ({"etc/systemd/logind.conf": KILLS}, "ann", "etc/systemd/logind.conf"),
        ({"etc/systemd/logind.conf": KILLS}, "root", ""),
        ({"etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, "ann", ""),
        ({"etc/systemd/logind.conf": KILLS, "usr/lib/systemd/logind.conf.d/1.conf": "KillUserProcesses = no"}, "ann", ""),
        ({"usr/lib/systemd/logind.conf.d/1.conf": KILLS, "etc/systemd/logind.conf.d/1.conf": ""}, "ann", ""),
        ({"run/systemd/logind.conf.d/1.conf": KILLS + "KillExcludeUsers=bob ann\n"}, "ann", ""),
        ({"run/systemd/logind.conf.d/1.conf": KILLS + "KillOnlyUsers=bob\n"}, "ann", ""),
        ({"run/systemd/logind.conf.d/1.conf": KILLS + "KillOnlyUsers=ann\n"}, "ann", "run/systemd/logind.conf.d/1.conf"),
        ({}, "ann", ""),
    ],
)
def test_what_logind_kills_at_logout_is_read_from_its_files(files: dict[str, str], user: str, by: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    root = f"{tmp_path}/"
    assert logind.kills(user, {"XDG_SESSION_ID": "3"}, root) == (by and root + by)
    assert logind.kills(user, {}, root) == "", "logind does not know this session"


def test_a_clock_is_not_blamed_for_a_slow_network() -> None:
    assert fitness.notes(well("h1", clock=3.0, clock_error=2.5), HOSTS) == []


def test_hosts_that_differ_are_named_with_what_they_have() -> None:
    found = fitness.differences([having("h1", "nvidia", 2, driver="535"), having("h2", "nvidia", 2, "H100", "550")])
    assert found == [
        "hosts have different devices: 2 × nvidia A100 on h1; 2 × nvidia H100 on h2",
        "hosts have different nvidia drivers: 535 on h1; 550 on h2",
    ]
    [named] = fitness.differences([well(f"h{number}", machine="aarch64" if number > 6 else "x86_64") for number in range(9)])
    assert named == "hosts have different CPU architectures: x86_64 on h0, h1, h2, h3, h4 and 2 more; aarch64 on h7, h8"
    assert fitness.differences([well("h1"), well("h2"), Report("h3", problem="it is off")]) == []


def test_auto_takes_what_all_hosts_have() -> None:
    both = well("h1", accelerators=tuple(Accelerators(kind, (DeviceInfo("0"),)) for kind in ("nvidia", "ascend")))
    assert fitness.common_kind([both, having("h2", "ascend", 8)]) == "ascend"
    assert fitness.common_kind([both, well("h2")]) == ""
    assert fitness.common_kind([well("h1"), well("h2")]) == "cpu"
    assert fitness.common_kind([well("h1"), Report("h2", problem="it is off")]) == ""


def test_parameter_servers_need_no_devices() -> None:
    job = Job(framework="tensorflow", device="nvidia", devices=2, nodes=1, ps=1, hosts=HOSTS)
    assert fitness.lacking(job, [having("h1", "nvidia", 2), well("h2")]) == []
    [(field, message, hint)] = fitness.lacking(job, [well("h1"), having("h2", "nvidia", 2)])
    assert (field, message) == ("device", "asks for nvidia devices, and h1 has none")
    assert "`muster doctor --hosts h1`" in hint


def test_what_a_job_needs_of_hosts_is_asked_of_each() -> None:
    job = Job(framework="mpi", device="cpu", ssh=True, boot="train.py", python="/opt/python", hosts=HOSTS)
    lacking = well("h1", ssh="there is no sshd", programs={"mpirun": ""})
    assert [problem[:2] for problem in fitness.lacking(job, [lacking])] == [
        ("python", "is /opt/python, which h1 (x86_64) does not have"),
        ("framework", "is mpi, and h1 has no mpirun on its PATH"),
        ("ssh", "asks for logins between the hosts, and on h1 there is no sshd"),
    ]
    assert fitness.wanted_python(Job(boot="train.py", python="env/bin/python")) == "", "it is in the code"


HELLO = r'printf "\nMUSTER-HOST {\"agent\": true}\n"'
ODD = {
    "an endless answer": (f"{HELLO}; exec cat /dev/zero", "it sent what it may not"),
    "a frame without an end": (f"{HELLO}; printf 'M\\001\\000\\000\\000'; exec cat /dev/zero", "it sent what it may not"),
    "no object": (f"{HELLO}; printf 'M\\000\\000\\000\\00217'; exec sleep 60", "it sent what it may not"),
    "much text": ("exec yes", "its shell writes too much"),
    "an end": (f"{HELLO}; echo Traceback >&2; exit 1", "ssh failed: Traceback"),
    "colours": (r"""printf '\nMUSTER-HOST {"error": "\\u001b[31mred"}\n'; exec sleep 60""", "cannot be used ( [31mred)"),
    "a long word": ("head -c 40000 /dev/zero | tr '\\0' x >&2; exit 1", "ssh failed: xxx"),
}


@pytest.mark.parametrize("how", ODD)
def test_a_host_that_answers_what_it_may_not_is_one_row(how: str, muster: Muster, tmp_path: Path) -> None:
    program, words = ODD[how]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "bin" / "ssh").chmod(0o755)
    done = muster("doctor", "--hosts", "a,b", "--json", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 1, done.stderr
    for host in json.loads(done.stdout)["hosts"]:
        assert words in host["problem"]
        assert len(host["problem"]) < 1000


def test_without_ssh_every_host_says_so(muster: Muster, tmp_path: Path) -> None:
    done = muster("doctor", "--hosts", "a,b", "--json", PATH=str(tmp_path))
    assert [host["problem"] for host in json.loads(done.stdout)["hosts"]] == [
        "there is no `ssh` on your PATH; install openssh-client"
    ] * 2


@pytest.mark.parametrize("words", [["doctor", "--links"], ["doctor", "--hosts", "a", "--timeout", "soon"]])
def test_options_that_mean_nothing_are_mistakes(words: list[str], muster: Muster) -> None:
    assert muster(*words).returncode == 2
